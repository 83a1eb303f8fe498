"""Keys, origins and permissions: who may use the gateway."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.asgi import JSON_TYPE, Answer, bearer, post, request
from tests.support.serving import config_of

from windlass.errors import ConfigError
from windlass.gateway import App, create_app, load_config
from windlass.gateway.config import GatewayConfig, KeyConfig, ModelConfig, ServerConfig
from windlass.gateway.config.keys import new_key
from windlass.gateway.routes.console import PAGES
from windlass.testing import FakeGemini, FakeOpenAI, ScriptedModel, call, refuse

WEB, APP, NONE = new_key(), new_key(), new_key()
KEYS = (
    KeyConfig(name="web", hash=WEB[1], models=("m",)),
    KeyConfig(name="app", hash=APP[1]),
    KeyConfig(name="none", hash=NONE[1], models=()),
)
BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
GUARDED = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/responses/compact"),
    ("POST", "/v1/responses/input_tokens"),
    ("GET", "/v1/responses/resp_x"),
    ("DELETE", "/v1/responses/resp_x"),
    ("POST", "/v1/responses/resp_x/cancel"),
    ("GET", "/v1/responses/resp_x/input_items"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/m"),
    ("DELETE", "/v1/models/m/cache"),
    ("POST", "/v1/models/m:generateContent"),
    ("GET", "/v1beta/models"),
    ("GET", "/v1beta/models/m"),
    ("POST", "/v1beta/models/m:generateContent"),
    ("POST", "/v1beta/models/m:streamGenerateContent"),
    ("POST", "/v1beta/models/m:countTokens"),
    ("POST", "/v1beta/tunedModels/m:countTokens"),
    ("POST", "/v1/publishers/google/models/m:countTokens"),
    ("POST", "/v1/projects/p/locations/l/publishers/google/models/m:countTokens"),
    ("POST", "/v1beta1/publishers/google/models/m:countTokens"),
    ("POST", "/v1beta1/projects/p/locations/l/publishers/google/models/m:countTokens"),
    ("POST", "/v1/runs"),
    ("GET", "/v1/runs"),
    ("GET", "/v1/runs/run_x"),
    ("GET", "/v1/runs/run_x/events"),
    ("POST", "/v1/runs/run_x/stop"),
    ("POST", "/v1/runs/run_x/approve"),
    ("GET", "/v1/runs/run_x/export"),
    ("DELETE", "/v1/runs/run_x"),
    ("GET", "/v1/tools"),
    ("GET", "/v1/tools/x"),
    ("POST", "/v1/tools/x/call"),
    ("GET", "/v1/chats"),
    ("GET", "/v1/chats/x"),
    ("POST", "/v1/chats/x"),
    ("DELETE", "/v1/chats/x"),
    ("POST", "/v1/conversations"),
    ("GET", "/v1/conversations/x"),
    ("POST", "/v1/conversations/x"),
    ("DELETE", "/v1/conversations/x"),
    ("GET", "/v1/conversations/x/items"),
    ("POST", "/v1/conversations/x/items"),
    ("GET", "/v1/conversations/x/items/y"),
    ("DELETE", "/v1/conversations/x/items/y"),
    ("GET", "/mcp"),
    ("POST", "/mcp"),
    ("DELETE", "/mcp"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/nowhere"),
]
OTHER_ERRORS = ("/v1/messages", "/v1/models/m:", "/v1/publishers", "/v1/projects", "/v1beta")
"""The paths of wires with their own form of errors."""
HEALTH = ("/health", "/health/live", "/health/ready")


def app_of(config: GatewayConfig | None = None) -> App:
    models = {"m": ScriptedModel("Hello."), "other": ScriptedModel("Hello.")}
    return create_app(config or GatewayConfig(), models=models, tools=())


@pytest.fixture
async def with_keys() -> AsyncIterator[App]:
    app = app_of(GatewayConfig(keys=KEYS))
    yield app
    await app.gateway.aclose()


@pytest.fixture
async def without_keys() -> AsyncIterator[App]:
    app = app_of()
    yield app
    await app.gateway.aclose()


async def get(app: App, path: str, *headers: tuple[bytes, bytes]) -> Answer:
    return await request(app, "GET", path, headers=headers)


async def test_a_key_is_sent_as_a_bearer_token_or_in_x_api_key(with_keys: App) -> None:
    for header in (
        bearer(WEB[0]),
        (b"authorization", f"bearer  {WEB[0]}".encode()),
        (b"x-api-key", WEB[0].encode()),
    ):
        assert (await post(with_keys, BODY, headers=[header])).status == 200


NO_VALID_KEY = [
    (b"x-nothing", b""),
    bearer("wl_" + "A" * 43),
    bearer(WEB[0][:-1]),
    bearer(WEB[0] + "x"),
    bearer(WEB[1]),
    bearer(""),
    (b"authorization", b"Basic " + WEB[0].encode()),
    (b"authorization", WEB[0].encode()),
    (b"x-api-key", b"\xff\xfe"),
    (b"cookie", b"key=" + WEB[0].encode()),
]


@pytest.mark.parametrize(("method", "path"), GUARDED)
async def test_a_request_without_a_valid_key_is_refused(
    with_keys: App, method: str, path: str
) -> None:
    for header in NO_VALID_KEY:
        answer = await request(with_keys, method, path, headers=[JSON_TYPE, header], pieces=[b"{}"])
        assert answer.status == 401, header
        assert answer.headers["www-authenticate"] == "Bearer"
        if not path.startswith(OTHER_ERRORS):
            assert answer.error["type"] == "authentication_error"
            assert answer.error["code"] == "invalid_api_key"
        assert "key" in answer.json["error"]["message"]


def test_every_endpoint_needs_a_key(with_keys: App) -> None:
    named = {
        (method, route.path)
        for route in with_keys.routes
        for method, path in GUARDED
        if route.path_regex.match(path) and method in (route.methods or ())
    }
    there = {
        (method, route.path)
        for route in with_keys.routes
        for method in route.methods or ("GET",)
        if method != "HEAD"
    }
    asks_nobody = {("GET", path) for path in (*PAGES, *HEALTH, "/console/{path:path}")}
    assert there - named == asks_nobody


@pytest.mark.parametrize("mounted", ["/console", "/tools", "/runs", "/chats"])
async def test_a_mounted_gateway_needs_keys_too(with_keys: App, mounted: str) -> None:
    for method, path in GUARDED:
        for where in (path, mounted + path):
            answer = await request(with_keys, method, where, root_path=mounted)
            assert answer.status == 401, (method, where)
    assert (await request(with_keys, "GET", f"{mounted}/health", root_path=mounted)).status == 200


async def test_health_needs_no_key(with_keys: App) -> None:
    for path in HEALTH:
        answer = await get(with_keys, path)
        assert (answer.status, answer.json) == (200, {"status": "ok"})


async def test_a_key_sees_only_its_own_models(with_keys: App) -> None:
    for key, names in ((WEB, ["m"]), (APP, ["m", "other"]), (NONE, [])):
        listed = await get(with_keys, "/v1/models", bearer(key[0]))
        assert [model["id"] for model in listed.json["data"]] == names


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/runs"])
async def test_a_model_of_another_key_is_not_found(with_keys: App, path: str) -> None:
    errors = []
    for model in ("other", "nowhere"):
        answer = await post(with_keys, {**BODY, "model": model}, path, [bearer(WEB[0])])
        assert answer.status == 404
        errors.append({**answer.error, "message": answer.error["message"].replace(model, "X")})
        shown = await get(with_keys, f"/v1/models/{model}", bearer(WEB[0]))
        assert (shown.status, shown.error["code"]) == (404, "model_not_found")
    assert errors[0] == errors[1]
    assert (errors[0]["code"], errors[0]["param"]) == ("model_not_found", "model")


async def test_runs_of_another_key_are_not_found(with_keys: App) -> None:
    run = (await post(with_keys, BODY, "/v1/runs", [bearer(WEB[0])])).json["id"]
    for method, path in (
        ("GET", f"/v1/runs/{run}"),
        ("GET", f"/v1/runs/{run}/events"),
        ("POST", f"/v1/runs/{run}/stop"),
        ("POST", f"/v1/runs/{run}/approve"),
    ):
        body = b'{"call_id": "call_1"}'
        answer = await request(
            with_keys, method, path, headers=[JSON_TYPE, bearer(APP[0])], pieces=[body]
        )
        assert (answer.status, answer.error["code"]) == (404, "run_not_found")
    assert (await get(with_keys, "/v1/runs", bearer(APP[0]))).json["data"] == []
    assert (await get(with_keys, f"/v1/runs/{run}", bearer(WEB[0]))).status == 200
    listed = await get(with_keys, "/v1/runs", bearer(WEB[0]))
    assert [each["id"] for each in listed.json["data"]] == [run]


OTHER_ORIGINS = [
    b"https://evil.example",
    b"http://127.0.0.1:3000",
    b"null",
    b"http://[",
    b"127.0.0.1",
]


@pytest.mark.sweep
@pytest.mark.parametrize(("method", "path"), GUARDED)
async def test_without_keys_a_page_of_another_origin_is_refused(
    without_keys: App, method: str, path: str
) -> None:
    for origin in OTHER_ORIGINS:
        answer = await request(
            without_keys, method, path, headers=[JSON_TYPE, (b"origin", origin)], pieces=[b"{}"]
        )
        assert answer.status == 403, origin
        assert "other origins" in answer.json["error"]["message"]
        if not path.startswith(OTHER_ERRORS):
            assert answer.error["code"] == "foreign_origin"
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "host", [b"evil.example", b"evil.example:8080", b"127.0.0.1.evil.example", b"[", b"10.0.0.1"]
)
async def test_without_keys_a_host_that_is_not_this_machine_is_refused(
    without_keys: App, host: bytes
) -> None:
    headers = [(b"host", host), (b"origin", b"http://" + host)]
    answer = await get(without_keys, "/v1/models", *headers)
    assert (answer.status, answer.error["code"]) == (403, "foreign_origin")


@pytest.mark.parametrize(
    "host", [b"localhost:8080", b"127.0.0.1:8080", b"[::1]:8080", b"LOCALHOST"]
)
async def test_without_keys_this_machine_and_its_own_page_are_allowed(
    without_keys: App, host: bytes
) -> None:
    assert (await get(without_keys, "/v1/models", (b"host", host))).status == 200
    headers = [(b"host", host), (b"origin", b"http://" + host)]
    assert (await get(without_keys, "/v1/models", *headers)).status == 200


def test_without_keys_the_gateway_listens_only_on_this_machine() -> None:
    environ = {"WINDLASS_MODEL": "openai/m", "OPENAI_API_KEY": "k"}
    with pytest.raises(ConfigError, match="without \\[\\[keys\\]\\] everyone who can reach"):
        load_config(None, environ, host="0.0.0.0")
    assert load_config(None, environ, host="::1").server.host == "::1"


PREFLIGHT = [(b"access-control-request-method", b"POST"), (b"origin", b"https://chat.example")]


async def test_without_cors_there_are_no_cors_headers(with_keys: App) -> None:
    asked = await request(with_keys, "OPTIONS", "/v1/chat/completions", headers=PREFLIGHT)
    assert asked.status == 401
    answer = await post(with_keys, BODY, headers=[bearer(WEB[0]), PREFLIGHT[1]])
    for each in (asked, answer):
        assert not [name for name in each.headers if name.startswith("access-control")]


@pytest.mark.parametrize("keys", [KEYS, ()], ids=["keys", "no keys"])
async def test_with_cors_the_configured_origins_are_allowed(keys: tuple[KeyConfig, ...]) -> None:
    server = ServerConfig(cors_origins=("https://chat.example",))
    app = app_of(GatewayConfig(server=server, keys=keys))
    asked = await request(
        app,
        "OPTIONS",
        "/v1/chat/completions",
        headers=[*PREFLIGHT, (b"access-control-request-headers", b"authorization,content-type")],
    )
    assert asked.status == 200
    assert asked.headers["access-control-allow-origin"] == "https://chat.example"
    assert "POST" in asked.headers["access-control-allow-methods"]
    assert "authorization" in asked.headers["access-control-allow-headers"]
    answer = await post(app, BODY, headers=[bearer(WEB[0]), PREFLIGHT[1]])
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "https://chat.example"
    exposed = answer.headers["access-control-expose-headers"]
    for name in ("X-Request-Id", "X-Windlass-Run-Id", "X-Function-Calling-Mode", "Retry-After"):
        assert name in exposed
    stranger = (b"origin", b"https://evil.example")
    refused = await post(app, BODY, headers=[bearer(WEB[0]), stranger])
    assert refused.status == (
        200 if keys else 403
    )  # with a key, the browser hides the answer from the page
    assert "access-control-allow-origin" not in refused.headers
    await app.gateway.aclose()


async def test_with_cors_a_page_can_read_an_error() -> None:
    server = ServerConfig(cors_origins=("https://chat.example",))
    app = app_of(GatewayConfig(server=server, keys=KEYS))
    answer = await post(app, BODY, headers=[PREFLIGHT[1]])
    assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
    assert answer.headers["access-control-allow-origin"] == "https://chat.example"
    await app.gateway.aclose()


@pytest.mark.parametrize(
    "kind", [b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data"]
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/runs"])
async def test_a_body_of_another_content_type_is_refused(
    without_keys: App, kind: bytes, path: str
) -> None:
    headers = [(b"content-type", kind)]
    answer = await request(without_keys, "POST", path, headers=headers, pieces=[b"{}"])
    assert (answer.status, answer.error["code"]) == (415, "unsupported_media_type")
    assert answer.error["type"] == "invalid_request_error"


async def test_a_body_without_a_content_type_is_read_as_json(without_keys: App) -> None:
    answer = await request(without_keys, "POST", "/v1/chat/completions", pieces=[b"{}"])
    assert (answer.status, answer.error["param"]) == (400, "model")


@pytest.mark.parametrize(
    "kind", [b"application/json; charset=utf-8", b"Application/JSON", b"application/vnd.x+json"]
)
async def test_json_content_types_are_accepted(without_keys: App, kind: bytes) -> None:
    body = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'
    path = "/v1/chat/completions"
    headers = [(b"content-type", kind)]
    answer = await request(without_keys, "POST", path, headers=headers, pieces=[body])
    assert answer.status == 200


SECRET = "sk-secret-of-the-operator-0123456789"


@pytest.mark.parametrize("wire", ["openai", "gemini"])
async def test_no_secret_is_in_an_answer_a_log_or_the_metrics(
    wire: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SECRET_KEY", SECRET)
    told = f"Incorrect API key provided: {SECRET}."
    script = [refuse(401, told), refuse(400, told), call("f"), "Hello."]
    fake = FakeOpenAI(script) if wire == "openai" else FakeGemini(script)
    said: list[str] = []
    with fake:
        config = config_of(
            ModelConfig(
                name="m",
                target=f"{wire}/gemini-2.5-flash",
                base_url=fake.base_url,
                api_key_env="SECRET_KEY",
                headers={"X-Secret-Token": "token-of-the-operator"},
            ),
            keys=KEYS,
        )
        app = create_app(config, tools=())
        for headers in ([bearer(WEB[0])] * 4, [bearer("wl_wrong-key-0123456789")]):
            for header in headers:
                answer = await post(app, BODY, headers=[header])
                said += [answer.body.decode(), str(answer.headers)]
        events = (await get(app, "/v1/runs", bearer(WEB[0]))).json["data"]
        for run in events:
            shown = await get(app, f"/v1/runs/{run['id']}", bearer(WEB[0]))
            log = await get(app, f"/v1/runs/{run['id']}/events", bearer(WEB[0]))
            said += [shown.body.decode(), log.body.decode()]
        said.append((await get(app, "/metrics", bearer(APP[0]))).body.decode())
        await app.gateway.aclose()
    assert [text for text in said if "Incorrect API key provided" in text]
    said += [str(vars(record)) for record in caplog.records]
    said += [repr(config), repr(app), caplog.text]
    for secret in (SECRET, "token-of-the-operator", WEB[0], "wl_wrong-key-0123456789"):
        assert not [text for text in said if secret in text]


async def test_keys_are_not_mixed_up_under_load(with_keys: App) -> None:
    async def names(key: tuple[str, str]) -> list[str]:
        listed = await get(with_keys, "/v1/models", bearer(key[0]))
        return [model["id"] for model in listed.json["data"]]

    answers = await asyncio.gather(*(names(key) for key in (WEB, APP, NONE) * 20))
    assert answers == [["m"], ["m", "other"], []] * 20


@pytest.mark.parametrize(
    ("models", "metrics", "status"),
    [
        (None, None, 200),
        (None, False, 403),
        (("m",), None, 403),
        ((), None, 403),
        (("m",), True, 200),
        ((), True, 200),
    ],
)
async def test_a_restricted_key_needs_permission_to_read_metrics(
    models: tuple[str, ...] | None, metrics: bool | None, status: int
) -> None:
    own = KeyConfig(name="own", hash=WEB[1], models=models, metrics=metrics)
    other = KeyConfig(name="another_customer", hash=APP[1])
    app = app_of(GatewayConfig(keys=(own, other)))
    await post(app, BODY, headers=[bearer(APP[0])])
    answer = await get(app, "/metrics", bearer(WEB[0]))
    assert answer.status == status
    assert (b"another_customer" in answer.body) is (status == 200)
    if status == 403:
        assert answer.error["code"] == "metrics_not_allowed"
    await app.gateway.aclose()
