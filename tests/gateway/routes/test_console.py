"""The console's page: public, cached by browsers, and limited to its own scripts."""

import gzip
from collections.abc import AsyncIterator
from importlib import resources

import pytest
from tests.support.asgi import Answer, request

from windlass.gateway import App, create_app
from windlass.gateway.config import GatewayConfig, KeyConfig, ServerConfig
from windlass.gateway.config.keys import new_key
from windlass.gateway.routes.console import accepts_gzip
from windlass.testing import ScriptedModel

STATIC = resources.files("windlass.gateway") / "static"
INDEX = (STATIC / "index.html").read_bytes()
VIEWS = ["/", "/chats/trip", "/runs", "/runs/run_1", "/tools", "/tools/add", "/replay"]
KEYS = (KeyConfig(name="web", hash=new_key()[1]),)


def app_of(config: GatewayConfig) -> App:
    return create_app(config, models={"m": ScriptedModel("Hello.")}, tools=())


@pytest.fixture(params=[(), KEYS], ids=["without keys", "with keys"])
async def app(request: pytest.FixtureRequest) -> AsyncIterator[App]:
    app = app_of(GatewayConfig(keys=request.param))
    yield app
    await app.gateway.aclose()


async def get(app: App, path: str, **headers: str) -> Answer:
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return await request(app, "GET", path, headers=sent)


@pytest.mark.parametrize("path", VIEWS)
async def test_every_view_of_the_page_has_an_address_that_needs_no_key(app: App, path: str) -> None:
    answer = await get(app, path)
    assert (answer.status, answer.body) == (200, INDEX)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("file", sorted(file.name for file in STATIC.iterdir()))
async def test_every_file_of_the_page_is_in_the_package_and_served(app: App, file: str) -> None:
    answer = await get(app, f"/console/{file}")
    assert (answer.status, answer.body) == (200, (STATIC / file).read_bytes())
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_the_page_runs_only_its_own_scripts(app: App) -> None:
    headers = (await get(app, "/")).headers
    rules = [rule.split(maxsplit=1) for rule in headers["content-security-policy"].split(";")]
    policy = {name: value.strip() for name, value in rules}
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert policy["trusted-types"] == "'none'"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"


async def test_a_cached_page_is_not_sent_again(app: App) -> None:
    first = await get(app, "/")
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = await get(app, "/runs", if_none_match=known)
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    assert (await get(app, "/", if_none_match='"other"')).status == 200


async def test_the_page_is_compressed_for_clients_that_accept_gzip(app: App) -> None:
    packed = await get(app, "/", accept_encoding="br, gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == INDEX
    plain = await get(app, "/")
    assert "content-encoding" not in plain.headers
    assert plain.headers["etag"] != packed.headers["etag"]
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("*", True),
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip; q=0.00, *", False),
        ("*;q=0", False),
    ],
)
def test_gzip_is_sent_only_if_it_is_accepted(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


@pytest.mark.parametrize("path", ["/console/nothing.js", "/console/", "/console/../console.py"])
async def test_only_files_of_the_page_are_served(app: App, path: str) -> None:
    assert (await get(app, path)).status == 404


async def test_the_page_can_be_switched_off() -> None:
    app = app_of(GatewayConfig(server=ServerConfig(console=False)))
    for path in (*VIEWS, "/console/index.html"):
        assert (await get(app, path)).status == 404
    assert (await get(app, "/health")).status == 200
    await app.gateway.aclose()


async def test_public_pages_make_no_other_path_public() -> None:
    app = app_of(GatewayConfig(keys=KEYS))
    for path in ("/v1/runs", "/v1/tools", "/runs/run_1/events", "/consoles", "/metrics", "//"):
        assert (await get(app, path)).status == 401
    await app.gateway.aclose()


@pytest.mark.parametrize("path", ["/nowhere", "/runs/a/b", "/chat"])
async def test_a_browser_gets_the_page_for_an_unknown_address(app: App, path: str) -> None:
    answer = await get(app, path, accept="text/html,*/*;q=0.8")
    assert (answer.status, answer.body) == (404, INDEX)


@pytest.mark.parametrize("path", ["/v1/nowhere", "/console/none.js", "/health/none"])
async def test_an_unknown_address_of_the_api_is_an_error_in_json(app: App, path: str) -> None:
    answer = await get(app, path, accept="text/html")
    assert answer.status in (401, 404)
    assert answer.error["message"]
    assert (await get(app, "/nowhere", accept="application/json")).status in (401, 404)
