"""Requests to the Messages API: what its clients send is accepted, and reaches the model."""

import json
from typing import Any

import httpx2
import pytest
from tests.support.asgi import bearer, post, request
from tests.support.messages_gateway import (
    COUNT_PATH,
    PATH,
    RING,
    SERVED,
    VERSION,
    Body,
    MessagesGateway,
    asking,
    assistant,
    lookup,
    results,
    texts,
    user,
)
from tests.support.serving import Serving, config_of

from windlass.content import InlineData, Text
from windlass.gateway import create_app
from windlass.gateway.config import KeyConfig, ModelConfig
from windlass.gateway.config.keys import new_key
from windlass.models import create_model
from windlass.testing import FakeAnthropic, FakeOpenAI, ScriptedModel, call

KEY, HASH = new_key()
SMALL, SMALL_HASH = new_key()
PIXEL = "iVBORw0KGgo="

# What changes with each release of a client.


@pytest.mark.parametrize(
    "beta",
    [
        "advanced-tool-use-2025-11-20",
        "prompt-caching-scope-2026-01-05",
        "advisor-tool-2026-03-01",
        "mid-conversation-tool-changes-2026-07-01",
        "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
        "never-heard-of-2030-01-01",
        ",,",
    ],
)
async def test_unknown_betas_are_accepted(beta: str) -> None:
    answer = await MessagesGateway("Hi.").post(asking(), (b"anthropic-beta", beta.encode()))
    assert answer.status == 200


async def test_betas_may_come_in_several_headers() -> None:
    gateway = MessagesGateway(call("lookup", city="Rome"), "Hi.")
    first, second = (b"anthropic-beta", b"mcp-client-2025-11-20"), (b"anthropic-beta", b"other")
    answer = await gateway.post(asking(), first, second)
    assert answer.json["content"][0]["type"] == "mcp_tool_use"


@pytest.mark.parametrize(
    "fields",
    [
        {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}},
        {"output_config": {"effort": "high"}},
        {"output_config": {"effort": "of another kind", "format": {"type": "new"}}},
        {"thinking": {"type": "adaptive", "display": "omitted"}},
        {"thinking": {"type": "of another kind"}},
        {"metadata": {"user_id": "u"}},
        {"service_tier": "auto", "speed": "fast", "container": "c", "inference_geo": "eu"},
        {"cache_control": {"type": "ephemeral"}},
        {"mcp_servers": [{"type": "url", "url": "https://example.com/mcp", "name": "x"}]},
        {"a_field_of_2030": {"deep": [1, 2]}},
        {"tools": [], "tool_choice": {"type": "auto"}},
        {"tools": [], "tool_choice": {"type": "tool", "name": "title"}},
        {"tool_choice": {"type": "any"}, "tools": None},
        {"max_tokens": 128_000},
        {"max_tokens": 0},
        {"stop_sequences": []},
    ],
    ids=lambda fields: "+".join(fields),
)
async def test_unknown_fields_are_accepted(fields: Body) -> None:
    gateway = MessagesGateway("Hi.")
    assert texts(await gateway.message(**fields)) == "Hi."


@pytest.mark.parametrize(
    "tool",
    [
        {**RING, "type": "custom", "cache_control": {"type": "ephemeral"}},
        {**RING, "input_examples": [{"times": 1}], "eager_input_streaming": True},
        {**RING, "defer_loading": True, "allowed_callers": ["direct"], "strict": True},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
        {"type": "mcp_toolset", "mcp_server_name": "x"},
        {"type": "tool_search_tool_bm25_20251119", "name": "tool_search"},
        {"type": "of_another_kind_20300101", "name": "x"},
    ],
    ids=lambda tool: f"{tool.get('type')} {len(tool)}",
)
async def test_every_kind_of_tool_is_accepted(tool: Body) -> None:
    gateway = MessagesGateway("Hi.")
    assert texts(await gateway.message(tools=[tool])) == "Hi."
    names = [getattr(each, "name", "") for each in gateway.model.requests[0].tools]
    assert ("ring" in names) == (tool["name"] == "ring" if "name" in tool else False)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "search_result", "source": "s", "title": "t", "content": []},
        {"type": "tool_addition", "tool": {"name": "x"}},
        {"type": "tool_removal", "name": "x"},
        {"type": "compaction", "content": "So far: nothing."},
        {"type": "container_upload", "file_id": "f"},
        {"type": "of_another_kind", "data": {"a": 1}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
        {"type": "document", "source": {"type": "content", "content": "inner"}},
    ],
    ids=lambda block: block["type"],
)
async def test_every_kind_of_user_block_is_accepted(block: Body) -> None:
    gateway = MessagesGateway("Hi.")
    said = [user([block, {"type": "text", "text": "Go."}])]
    assert texts(await gateway.message(messages=said)) == "Hi."
    assert gateway.seen[-1].text.endswith("Go.")


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "Hm.", "signature": "foreign"},
        {"type": "redacted_thinking", "data": "xxxx"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {
            "type": "mcp_tool_use",
            "id": "mcptoolu_1",
            "name": "f",
            "server_name": "theirs",
            "input": {},
        },
        {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "content": "x"},
        {"type": "mcp_tool_listing", "tools": []},
        {"type": "of_another_kind", "data": {"a": 1}},
    ],
    ids=lambda block: block["type"],
)
async def test_every_kind_of_assistant_block_is_accepted(block: Body) -> None:
    gateway = MessagesGateway("Hi.")
    turn = assistant([block, {"type": "text", "text": "Well."}])
    assert texts(await gateway.message(messages=[user("Go."), turn, user("Go on.")])) == "Hi."
    assert [each.role for each in gateway.seen] == ["user", "assistant", "user"]


async def test_blocks_of_a_result_are_accepted() -> None:
    gateway = MessagesGateway(call("ring", times=1), "Nice.")
    message = await gateway.message(tools=[RING])
    answered = results(message, ring="")
    answered["content"][0]["content"] = [
        {"type": "text", "text": "rang"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        {"type": "tool_reference", "tool_name": "x"},
    ]
    said = [user("Go."), assistant(message["content"]), answered]
    assert texts(await gateway.message(messages=said, tools=[RING])) == "Nice."
    [response] = gateway.seen[-1].responses
    assert response.text == "rang"
    [image] = response.parts
    assert isinstance(image, InlineData)


async def test_a_system_message_in_the_middle_reaches_the_model() -> None:
    gateway = MessagesGateway("Hi.")
    said = [user("Go."), {"role": "system", "content": "Be brief."}]
    assert texts(await gateway.message(messages=said, system="You are kind.")) == "Hi."
    spoken = [(each.role, each.text) for each in gateway.seen]
    assert spoken == [("system", "You are kind."), ("user", "Go."), ("system", "Be brief.")]


async def test_system_blocks_are_kept_apart_and_whole() -> None:
    gateway = MessagesGateway("Hi.")
    system = [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.325"},
        {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}},
    ]
    await gateway.message(system=system)
    parts = [part for part in gateway.seen[0].parts if isinstance(part, Text)]
    assert [part.text for part in parts] == [block["text"] for block in system]


async def test_the_path_may_have_a_query() -> None:
    gateway = MessagesGateway("Hi.")
    answer = await post(gateway.app, asking(), f"{PATH}?beta=true", (VERSION,))
    assert answer.status == 200


async def test_the_settings_reach_the_model() -> None:
    gateway = MessagesGateway("Hi.")
    await gateway.message(
        temperature=0.5,
        top_p=0.9,
        top_k=7,
        stop_sequences=["END"],
        tools=[RING],
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
        thinking={"type": "enabled", "budget_tokens": 2000},
    )
    request = gateway.model.requests[0]
    settings = request.settings
    assert (settings.temperature, settings.top_p, settings.top_k) == (0.5, 0.9, 7)
    assert (settings.max_tokens, settings.stop) == (1000, ("END",))
    assert settings.reasoning_effort == "low"
    assert request.parallel_tool_calls is False


# Models of either wire behind it.


def claude_code_request() -> Body:
    """The kinds of content that Claude Code sends, in short."""
    return asking(
        messages=[
            user([{"type": "text", "text": "Go.", "cache_control": {"type": "ephemeral"}}]),
            {"role": "system", "content": "The date has changed."},
        ],
        system=[{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.325"}],
        max_tokens=128_000,
        thinking={"type": "adaptive", "display": "omitted"},
        output_config={"effort": "high"},
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        metadata={"user_id": "u"},
        tools=[RING, {**RING, "name": "later", "defer_loading": True}],
    )


@pytest.mark.parametrize("stream", [False, True])
def test_only_what_openai_knows_reaches_openai(stream: bool) -> None:
    with FakeOpenAI(["Hi."]) as fake:
        body = asked_over("openai/gpt-test", fake.base_url, stream)
    assert body.status_code == 200, body.text
    [received] = fake.requests
    unknown = {"context_management", "output_config", "thinking", "metadata", "anthropic_beta"}
    assert not unknown & received.body.keys()
    assert [each["role"] for each in received.body["messages"]] == ["system", "user", "system"]


@pytest.mark.parametrize("stream", [False, True])
def test_fields_of_anthropic_reach_anthropic_unchanged(stream: bool) -> None:
    with FakeAnthropic(["Hi."]) as fake:
        answer = asked_over("anthropic/claude-opus-5", fake.base_url, stream)
    assert answer.status_code == 200, answer.text
    [received] = fake.requests
    sent = claude_code_request()
    for name in ("context_management", "output_config", "thinking", "metadata"):
        assert received.body[name] == sent[name]
    assert received.body["system"][0]["text"] == sent["system"][0]["text"]
    assert "claude-code-20250219" in received.headers["anthropic-beta"].split(",")


def asked_over(target: str, base_url: str, stream: bool) -> httpx2.Response:
    model = create_model(target, base_url=base_url, api_key="k")
    config = config_of(ModelConfig(name="m", target=target))
    with Serving(config, models={"m": model}) as serving:
        return httpx2.post(
            f"{serving.root_url}{PATH}?beta=true",
            json={**claude_code_request(), "stream": stream},
            headers={
                "anthropic-version": "2023-06-01",
                "anthropic-beta": "claude-code-20250219,never-heard-of-2030-01-01",
            },
            trust_env=False,
        )


# Names of models.

BIG = ModelConfig(name="big", target="scripted/big", aliases=("claude-opus-*", "claude-sonnet-4"))
LITTLE = ModelConfig(name="little", target="scripted/small", aliases=("claude-*",))
KEYS = (
    KeyConfig(name="all", hash=HASH),
    KeyConfig(name="small", hash=SMALL_HASH, models=("little",)),
)


def two_models(**fields: Any) -> Any:
    models = {
        "big": ScriptedModel("I am big.", strict=False),
        "little": ScriptedModel("I am little.", strict=False),
    }
    return create_app(config_of(BIG, LITTLE, **fields), models=models, tools=[lookup])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("big", "I am big."),
        ("little", "I am little."),
        ("claude-opus-5-5", "I am big."),
        ("claude-sonnet-4", "I am big."),
        ("claude-sonnet-4-5", "I am little."),
        ("claude-haiku-4-5-20251001", "I am little."),
    ],
)
async def test_the_first_alias_that_matches_chooses_the_model(name: str, said: str) -> None:
    app = two_models()
    assert texts((await post(app, {**asking(), "model": name}, PATH)).json) == said
    chat = {"model": name, "messages": [user("Go.")]}
    assert (await post(app, chat)).json["choices"][0]["message"]["content"] == said


@pytest.mark.parametrize("name", ["Claude-opus-5", "xclaude-opus", "gpt-5", "claude"])
async def test_other_names_are_unknown(name: str) -> None:
    assert (await post(two_models(), {**asking(), "model": name}, PATH)).status == 404


@pytest.mark.parametrize("path", [PATH, COUNT_PATH])
async def test_a_key_uses_the_aliases_of_its_models_only(path: str) -> None:
    app = two_models(keys=KEYS)
    for name, status in (("big", 404), ("little", 200), ("claude-haiku-5", 200)):
        answer = await post(app, {**asking(), "model": name}, path, (bearer(SMALL),))
        assert answer.status == status
    assert (await post(app, {**asking(), "model": "big"}, path, (bearer(KEY),))).status == 200


async def test_a_key_gets_the_first_of_its_models_with_the_alias() -> None:
    app = two_models(keys=KEYS)
    body = {**asking(), "model": "claude-opus-5"}
    assert texts((await post(app, body, PATH, (bearer(KEY),))).json) == "I am big."
    assert texts((await post(app, body, PATH, (bearer(SMALL),))).json) == "I am little."


async def test_model_names_of_clients_are_not_labels_of_metrics() -> None:
    gateway = MessagesGateway(*["Hi."] * 3)
    for name in ("claude-a", "claude-b", "claude-c"):
        assert (await gateway.post({**asking(), "model": name})).status == 200
        assert (await post(gateway.app, {**asking(), "model": name}, COUNT_PATH)).status == 200
        assert (await gateway.post({**asking(), "model": f"x{name}"})).status == 404
    shown = (await gateway.get("/metrics")).body.decode()
    assert 'model="m"' in shown
    assert "claude" not in shown
    assert 'route="/v1/messages"' in shown


# Lists of models.


@pytest.mark.sdk
async def test_models_are_listed_in_anthropics_form_to_anthropics_clients() -> None:
    from anthropic.types import ModelInfo

    gateway = MessagesGateway(served=SERVED)
    listed = (await gateway.get("/v1/models", VERSION)).json
    [model] = listed["data"]
    assert ModelInfo.model_validate(model).id == "m"
    assert model["created_at"].endswith("Z")
    assert (listed["has_more"], listed["first_id"], listed["last_id"]) == (False, "m", "m")
    assert (await gateway.get("/v1/models")).json["object"] == "list"


async def test_aliases_without_a_pattern_are_listed() -> None:
    # Claude Code shows only names that begin with `claude` or `anthropic`.
    answer = await MessagesGateway(served=BIG).get("/v1/models", VERSION)
    assert [model["id"] for model in answer.json["data"]] == ["big", "claude-sonnet-4"]


async def test_a_key_sees_its_models_and_their_aliases() -> None:
    app = two_models(keys=KEYS)
    answer = await request(app, "GET", "/v1/models", headers=(VERSION, bearer(SMALL)))
    assert [model["id"] for model in answer.json["data"]] == ["little"]


@pytest.mark.sdk
async def test_one_model_is_shown_by_its_name_or_alias() -> None:
    from anthropic.types import ModelInfo

    gateway = MessagesGateway(served=BIG)
    for name in ("big", "claude-sonnet-4", "claude-opus-5"):
        shown = (await gateway.get(f"/v1/models/{name}", VERSION)).json
        assert ModelInfo.model_validate(shown).id == name


# Counting tokens.


async def counted(**fields: Any) -> int:
    gateway = MessagesGateway()
    answer = await post(gateway.app, asking(**fields), COUNT_PATH, (VERSION,))
    assert answer.status == 200, answer
    assert answer.json.keys() == {"input_tokens"}
    assert not gateway.model.requests
    return answer.json["input_tokens"]


async def test_the_count_grows_with_everything_that_is_sent() -> None:
    least = await counted()
    assert least > 0
    assert await counted(prompt="Go. " * 100) > least + 50
    assert await counted(system="Be kind. " * 100) > least + 50
    assert await counted(tools=[RING]) > least
    image = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    assert await counted(prompt=[{"type": "image", "source": image}]) > least
    call_block = {"type": "tool_use", "id": "t", "name": "ring", "input": {"x": "y " * 200}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "z " * 200}
    turns = [user("Go."), assistant([call_block]), user([result])]
    assert await counted(messages=turns) > least + 100


async def test_the_count_includes_the_tools_of_the_gateway() -> None:
    without = ModelConfig(name="m", target="scripted/model", aliases=("claude-*",))
    counts: list[int] = []
    for served in (without, SERVED):
        app = MessagesGateway(served=served).app
        answer = await post(app, asking(), COUNT_PATH, (VERSION,))
        counts.append(answer.json["input_tokens"])
    assert counts[0] < counts[1] - 100


async def test_the_count_is_not_far_below_the_size_of_the_text() -> None:
    # An estimate that is too low makes Claude Code compact too late.
    text = json.dumps([{"name": f"tool_{n}", "value": n} for n in range(500)])
    assert await counted(prompt=text) >= len(text) // 5


async def test_counting_tokens_needs_no_max_tokens_and_ignores_unknown_fields() -> None:
    body = {"model": "claude-x", "messages": [user("Go.")], "a_field_of_2030": 1}
    answer = await post(MessagesGateway().app, body, COUNT_PATH)
    assert answer.json["input_tokens"] > 0
