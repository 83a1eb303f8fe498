"""What a script's function wants to know of a request, whichever wire it came by."""

from typing import Any, TypeAlias, cast

from windlass.content import FunctionResponse
from windlass.model import ModelRequest

__all__ = ["last_prompt", "tool_results"]

_Body: TypeAlias = dict[str, Any]


def tool_results(request: ModelRequest | _Body) -> list[FunctionResponse]:
    """Every tool result in the request's history, in order; their number tells the round."""
    if isinstance(request, ModelRequest):
        return [answer for message in request.messages for answer in message.responses]
    return _gemini_results(request) if "contents" in request else _openai_results(request)


def last_prompt(request: ModelRequest | _Body) -> str:
    """The text of the last user message, which tells concurrent conversations apart."""
    if isinstance(request, ModelRequest):
        prompts = [said.text for said in request.messages if said.role == "user"]
    elif "contents" in request:
        turns = cast("list[_Body]", request["contents"])
        prompts = [_joined(turn["parts"]) for turn in turns if turn.get("role") != "model"]
    else:
        messages = cast("list[_Body]", request["messages"])
        prompts = [_joined(said["content"]) for said in messages if said["role"] == "user"]
    return next((text for text in reversed(prompts) if text), "")


def _joined(content: str | list[_Body]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content)


def _gemini_results(body: _Body) -> list[FunctionResponse]:
    parts = [part for turn in cast("list[_Body]", body["contents"]) for part in turn["parts"]]
    found = [part.get("functionResponse") or part.get("function_response") for part in parts]
    return [FunctionResponse(r["name"], r["response"], r.get("id") or "") for r in found if r]


def _openai_results(body: _Body) -> list[FunctionResponse]:
    names: dict[str, str] = {}
    results: list[FunctionResponse] = []
    for message in cast("list[_Body]", body["messages"]):
        for made in cast("list[_Body]", message.get("tool_calls") or []):
            names[made["id"]] = made["function"]["name"]
        if message["role"] == "tool":
            answered, output = message["tool_call_id"], _joined(message["content"])
            results.append(FunctionResponse(names[answered], {"output": output}, answered))
    return results
