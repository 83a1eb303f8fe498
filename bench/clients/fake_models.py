"""Models that treat `tool_choice` differently, behind the OpenAI wire."""

from typing import Any

import msgspec

from windlass.content import FunctionDeclaration
from windlass.emulation.prompt import sample_arguments
from windlass.testing import FakeOpenAI, Turn, call, say

__all__ = ["MODELS", "SERVER_TOOL", "upstream"]

Body = dict[str, Any]

SERVER_TOOL = "get_weather"
ANSWER = "It is 21 degrees in Paris."
MODELS = {
    "obedient": "calls the server tool once, then does what tool_choice says",
    "eager": "calls the server tool whenever tool_choice allows it",
    "talker": "calls the server tool once, then answers with text, whatever tool_choice says",
}


def upstream() -> FakeOpenAI:
    return FakeOpenAI(_turn, models=tuple(MODELS))


def _turn(body: Body) -> Turn:
    """Returns the next turn of the model that `body` names."""
    tools: dict[str, Body] = {
        tool["function"]["name"]: tool["function"] for tool in body.get("tools") or []
    }
    ran = _server_tool_ran(body)
    if schema := _call_schema(body):
        return _written(schema, ran)
    forced = _forced(body, tools)
    may_call_server_tool = SERVER_TOOL in (forced or tools)
    if may_call_server_tool and (not ran or (forced and body["model"] == "eager")):
        return call(SERVER_TOOL, city="Paris")
    if not forced or body["model"] == "talker":
        return say(ANSWER)
    chosen = tools[next((name for name in forced if name != SERVER_TOOL), forced[0])]
    return call(chosen["name"], **_arguments(chosen["name"], chosen.get("parameters")))


def _forced(body: Body, tools: dict[str, Body]) -> list[str]:
    """Returns the tools of which the model must call one; empty if it may answer with text."""
    match body.get("tool_choice"):
        case "required":
            return list(tools)
        case {"function": {"name": name}}:
            return [name]
        case {"allowed_tools": {"mode": "required", "tools": allowed}}:
            return [tool["function"]["name"] for tool in allowed]
        case _:
            return []


def _server_tool_ran(body: Body) -> bool:
    """Whether there is a result of the server tool after the question, as a message or as text."""
    since: list[Body] = []
    for message in body["messages"]:
        is_question = message["role"] == "user" and "<tool_response" not in str(message["content"])
        since = [] if is_question else [*since, message]
    called = [made["function"]["name"] for m in since for made in m.get("tool_calls") or []]
    return SERVER_TOOL in called or any("<tool_response" in str(m["content"]) for m in since)


def _call_schema(body: Body) -> Body | None:
    """Returns the schema that forces a model without native function calling to make a call."""
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema", {})
    return schema if "arguments" in str(schema) else None


def _written(schema: Body, ran: bool) -> Turn:
    options: dict[str, Body] = {
        option["properties"]["name"]["enum"][0]: option["properties"]["arguments"]
        for option in schema.get("anyOf", [schema])
    }
    name = next((name for name in options if (name == SERVER_TOOL) is not ran), next(iter(options)))
    made = {"name": name, "arguments": _arguments(name, options[name])}
    return say(msgspec.json.encode(made).decode())


def _arguments(name: str, parameters: Body | None) -> Body:
    return sample_arguments(FunctionDeclaration(name, "", parameters or {}))
