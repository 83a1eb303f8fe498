"""Validation of Responses requests, with OpenAI's error messages."""

from collections.abc import Mapping
from typing import Any, cast

from windlass.testing.exchange import RequestRefused
from windlass.testing.openai_rules import (
    NOT_JSON,
    check_name,
    checked_array,
    wrong_type,
    wrong_value,
)

_ROLES = ("assistant", "system", "developer", "user")
_CONTENT_TYPES = (
    "input_text",
    "input_image",
    "output_text",
    "refusal",
    "input_file",
    "input_audio",
    "summary_text",
)
_OUTPUT_TYPES = ("input_text", "input_image", "input_file")
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_HOSTED = (
    "apply_patch_call",
    "apply_patch_call_output",
    "code_interpreter_call",
    "compaction",
    "computer_call",
    "computer_call_output",
    "file_search_call",
    "image_generation_call",
    "item_reference",
    "local_shell_call",
    "local_shell_call_output",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
)
_ITEM_TYPES = ("message", "reasoning", *_CALLS, *_OUTPUTS, *_HOSTED)
_TOOL_TYPES = (
    "function",
    "custom",
    "namespace",
    "tool_search",
    "programmatic_tool_calling",
    "mcp",
    "web_search",
    "web_search_preview",
    "file_search",
    "code_interpreter",
    "image_generation",
    "computer",
    "computer_use_preview",
    "local_shell",
    "shell",
    "apply_patch",
)
_FORMATS = ("text", "json_object", "json_schema")
_NOT_STORED = (
    "Item with id '{}' not found. Items are not persisted when `store` is set to false. Try again"
    " with `store` set to true, or remove this item from your input."
)
_UNKNOWN_FIELDS = ("messages", "functions", "response_format", "max_tokens", "stop", "n", "seed")


def check_responses_request(
    body: object, stored: Mapping[str, list[dict[str, Any]]]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The body, and the items of the conversation that it continues, if OpenAI would accept it.

    `stored` has the conversation of every stored response. Raises `RequestRefused`.
    """
    if not isinstance(body, dict):
        raise RequestRefused(400, NOT_JSON)
    request = cast("dict[str, Any]", body)
    if not isinstance(request.get("model"), str) or not request["model"]:
        raise _missing("model")
    for name in _UNKNOWN_FIELDS:
        if name in request:
            raise RequestRefused(
                400, f"Unknown parameter: '{name}'.", code="unknown_parameter", param=name
            )
    if request.get("previous_response_id") and request.get("conversation"):
        raise RequestRefused(
            400,
            "Mutually exclusive parameters: 'conversation' and 'previous_response_id'. Ensure you"
            " are only providing one of: 'previous_response_id' or 'conversation'.",
            code="mutually_exclusive_parameters",
        )
    earlier = _earlier(request.get("previous_response_id"), stored)
    items = _items(request.get("input"))
    _check_items(items, earlier, stores=request.get("store") is not False)
    _check_tools(request)
    _check_format(request.get("text"))
    return request, [*earlier, *items]


def _missing(name: str) -> RequestRefused:
    text = f"Missing required parameter: '{name}'."
    return RequestRefused(400, text, code="missing_required_parameter", param=name)


def _earlier(previous: object, stored: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    if previous is None:
        return []
    if not isinstance(previous, str) or previous not in stored:
        raise RequestRefused(
            400,
            f"Previous response with id '{previous}' not found.",
            code="previous_response_not_found",
            param="previous_response_id",
        )
    return stored[previous]


def _items(value: object) -> list[dict[str, Any]]:
    if value is None:
        raise _missing("input")
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    items = checked_array(value, "input")
    for place, item in enumerate(items):
        if not isinstance(item, dict):
            raise wrong_type(f"input[{place}]", "an object", item)
    return cast("list[dict[str, Any]]", items)


def _check_items(
    items: list[dict[str, Any]], earlier: list[dict[str, Any]], *, stores: bool
) -> None:
    unanswered = _open_calls(earlier)
    known = {item["call_id"] for item in earlier if item.get("type") in _CALLS}
    for place, item in enumerate(items):
        where = f"input[{place}]"
        kind = item.get("type", "message")
        if kind not in _ITEM_TYPES:
            raise wrong_value(kind, _ITEM_TYPES, where)
        if kind == "message":
            _check_message(item, where)
        elif kind in _CALLS:
            _check_call(item, kind, where)
            known.add(item["call_id"])
            unanswered[item["call_id"]] = kind
        elif kind in _OUTPUTS:
            _check_output(item, known, where)
            unanswered.pop(item["call_id"], None)
        elif kind == "reasoning":
            _check_reasoning(item, items[place + 1 :], where, stores=stores)
    for call_id, kind in unanswered.items():
        what = "function call" if kind == "function_call" else "custom tool call"
        raise RequestRefused(400, f"No tool output found for {what} {call_id}.", param="input")


def _open_calls(items: list[dict[str, Any]]) -> dict[str, str]:
    calls = {item["call_id"]: item["type"] for item in items if item.get("type") in _CALLS}
    answered = {item["call_id"] for item in items if item.get("type") in _OUTPUTS}
    return {call_id: kind for call_id, kind in calls.items() if call_id not in answered}


def _check_message(item: dict[str, Any], where: str) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in _ROLES:
        raise wrong_value(role, _ROLES, f"{where}.role")
    if isinstance(content, str):
        return
    wanted = ("output_text", "refusal") if role == "assistant" else _CONTENT_TYPES
    _check_parts(content, wanted, f"{where}.content")


def _check_parts(parts: object, wanted: tuple[str, ...], where: str) -> None:
    if not isinstance(parts, list):
        raise wrong_type(where, "one of an array of objects or string", parts)
    for place, part in enumerate(cast("list[Any]", parts)):
        fields: dict[str, Any] = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
        at = f"{where}[{place}]"
        if fields.get("type") not in wanted:
            raise wrong_value(fields.get("type"), wanted, f"{at}.type")
        if fields["type"] in ("input_text", "output_text") and not isinstance(
            fields.get("text"), str
        ):
            raise wrong_type(f"{at}.text", "a string", fields.get("text"))
        if fields["type"] == "input_image":
            url = fields.get("image_url")
            if fields.get("file_id") is None and not isinstance(url, str):
                raise wrong_type(f"{at}.image_url", "a string", url)


def _check_call(item: dict[str, Any], kind: str, where: str) -> None:
    for field in ("call_id", "name", _CALLS[kind]):
        if not isinstance(item.get(field), str):
            raise _missing(f"{where}.{field}")
    check_name(item["name"], f"{where}.name")


def _check_output(item: dict[str, Any], known: set[str], where: str) -> None:
    call_id, output = item.get("call_id"), item.get("output")
    if not isinstance(call_id, str):
        raise _missing(f"{where}.call_id")
    if output is None:
        raise _missing(f"{where}.output")
    if not isinstance(output, str):
        _check_parts(output, _OUTPUT_TYPES, f"{where}.output")
    if call_id not in known:
        raise RequestRefused(
            400,
            f"No tool call found for function call output with call_id {call_id}.",
            param="input",
        )


def _check_reasoning(
    item: dict[str, Any], following: list[dict[str, Any]], where: str, *, stores: bool
) -> None:
    if not isinstance(item.get("summary"), list):
        raise _missing(f"{where}.summary")
    if not stores and not item.get("encrypted_content"):
        raise RequestRefused(404, _NOT_STORED.format(item.get("id")), param="input")
    # Reasoning belongs to what the model said next.
    answered = following[:1] and (
        following[0].get("type", "message") in (*_CALLS, *_HOSTED, "reasoning")
        or following[0].get("role") == "assistant"
    )
    if not answered:
        raise RequestRefused(
            400,
            f"Item '{item.get('id')}' of type 'reasoning' was provided without its required"
            " following item.",
            param="input",
        )


def _check_tools(request: dict[str, Any]) -> None:
    names: list[str] = []
    for place, made in enumerate(cast("list[Any]", request.get("tools") or [])):
        where = f"tools[{place}]"
        tool = cast("dict[str, Any]", made) if isinstance(made, dict) else {}
        if tool.get("type") not in _TOOL_TYPES:
            raise wrong_value(tool.get("type"), _TOOL_TYPES, where)
        if tool["type"] not in ("function", "custom"):
            continue
        if not isinstance(tool.get("name"), str):
            raise _missing(f"{where}.name")
        check_name(tool["name"], f"{where}.name")
        names.append(tool["name"])
    _check_tool_choice(request, names)


def _check_tool_choice(request: dict[str, Any], names: list[str]) -> None:
    choice = request.get("tool_choice")
    match choice:
        case None | "auto" | "none":
            return
        case "required" | {"type": "function" | "allowed_tools" | "custom"} if not request.get(
            "tools"
        ):
            text = "Tool choice 'required' must be specified with 'tools' parameter."
            raise RequestRefused(400, text, param="tool_choice")
        case "required" | {"type": "mcp" | "web_search" | "file_search"}:
            return
        case {"type": "allowed_tools", "mode": "auto" | "required", "tools": list()}:
            return
        case {"type": "function" | "custom", "name": str(name)} if name in names:
            return
        case {"type": "function" | "custom", "name": str(name)}:
            text = f"Tool choice '{name}' not found in 'tools' parameter."
            raise RequestRefused(400, text, param="tool_choice")
        case _:
            raise wrong_value(choice, ("none", "auto", "required"), "tool_choice")


def _check_format(text: object) -> None:
    fields = cast("dict[str, Any]", text) if isinstance(text, dict) else {}
    match fields.get("format"):
        case None | {"type": "text" | "json_object"}:
            return
        case {"type": "json_schema", "name": str(name), "schema": dict()}:
            check_name(name, "text.format.name")
        case {"type": "json_schema"}:
            raise _missing("text.format.name")
        case other:
            kind = cast("dict[str, Any]", other).get("type") if isinstance(other, dict) else other
            raise wrong_value(kind, _FORMATS, "text.format.type")
