"""Validation of chat completion requests, with OpenAI's error messages."""

import re
from typing import Any, cast

from windlass.testing.exchange import RequestRefused

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_CONTENT_TYPES = ("text", "image_url", "input_audio", "refusal", "audio", "file")
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
MAX_NAME_LENGTH = 64
_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: {}"
)
_ORPHAN = (
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
    "'tool_calls'."
)
_EMPTY = (
    "Invalid '{}': empty array. Expected an array with minimum length 1, but got an empty array "
    "instead."
)
NOT_JSON = (
    "We could not parse the JSON body of your request. (HINT: This likely means you aren't using "
    "your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not "
    "valid JSON.)"
)
_ONLY_WITH_TOOLS = "Invalid value for '{0}': '{0}' is only allowed when 'tools' are specified."
_ONLY_WITH_STREAM = "The 'stream_options' parameter is only allowed when 'stream' is enabled."


def check_chat_request(body: object) -> dict[str, Any]:
    """The body, if OpenAI would accept it. Raises `RequestRefused`."""
    if not isinstance(body, dict):
        raise RequestRefused(400, NOT_JSON)
    request = cast("dict[str, Any]", body)
    if not isinstance(request.get("model"), str) or not request["model"]:
        raise RequestRefused(400, "you must provide a model parameter")
    _check_messages(_required_array(request, "messages"))
    _check_tools(request)
    if request.get("stream_options") is not None and not request.get("stream"):
        raise RequestRefused(400, _ONLY_WITH_STREAM, param="stream_options")
    return request


def _required_array(request: dict[str, Any], name: str) -> list[Any]:
    value = request.get(name)
    if value is None:
        raise RequestRefused(
            400,
            f"Missing required parameter: '{name}'.",
            code="missing_required_parameter",
            param=name,
        )
    return checked_array(value, name)


def checked_array(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise wrong_type(name, "an array of objects", value)
    if not value:
        raise RequestRefused(400, _EMPTY.format(name), code="empty_array", param=name)
    return cast("list[Any]", value)


def _check_messages(messages: list[Any]) -> None:
    open_ids: list[str] = []
    answerable = False
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        if not isinstance(message, dict):
            raise wrong_type(where, "an object", message)
        said = cast("dict[str, Any]", message)
        if said.get("role") == "tool":
            answered = _answered_id(said, place, answerable)
            if answered not in open_ids:
                raise RequestRefused(400, _ORPHAN, param=f"messages.[{place}].role")
            open_ids.remove(answered)
            continue
        if open_ids:
            raise _unanswered(open_ids, place)
        _check_message(said, where)
        open_ids = _call_ids(said, where)
        answerable = bool(open_ids)
    if open_ids:
        raise _unanswered(open_ids, len(messages))


def _answered_id(message: dict[str, Any], place: int, answerable: bool) -> str:
    if not answerable:
        raise RequestRefused(400, _ORPHAN, param=f"messages.[{place}].role")
    answered = message.get("tool_call_id")
    if not isinstance(answered, str):
        raise RequestRefused(
            400,
            "Missing parameter 'tool_call_id': messages with role 'tool' must have a "
            "'tool_call_id'.",
            param=f"messages.[{place}].tool_call_id",
        )
    _check_content(message, f"messages[{place}]")
    return answered


def _check_message(message: dict[str, Any], where: str) -> None:
    role = message.get("role")
    if role not in _ROLES:
        raise wrong_value(role, _ROLES, f"{where}.role")
    if role == "assistant" and message.get("content") is None and message.get("tool_calls"):
        return
    _check_content(message, where)


def _check_content(message: dict[str, Any], where: str) -> None:
    content = message.get("content")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        shown = "null" if content is None else kind_of(content)
        raise RequestRefused(
            400,
            f"Invalid value for 'content': expected a string, got {shown}.",
            param=f"{where.replace('[', '.[')}.content",
        )
    for place, part in enumerate(cast("list[Any]", content)):
        kind = cast("dict[str, Any]", part).get("type") if isinstance(part, dict) else None
        if kind not in _CONTENT_TYPES:
            raise wrong_value(kind, _CONTENT_TYPES, f"{where}.content[{place}].type")


def _call_ids(message: dict[str, Any], where: str) -> list[str]:
    calls = message.get("tool_calls")
    if calls is None:
        return []
    ids: list[str] = []
    for place, made in enumerate(checked_array(calls, f"{where}.tool_calls")):
        at = f"{where}.tool_calls[{place}]"
        match made:
            case {"id": str(call_id), "type": "function", "function": {"name": str(name), **rest}}:
                check_name(name, f"{at}.function.name")
                if not isinstance(rest.get("arguments"), str):
                    raise wrong_type(f"{at}.function.arguments", "a string", rest.get("arguments"))
                ids.append(call_id)
            case _:
                raise RequestRefused(
                    400,
                    f"Missing required parameter: '{at}'.",
                    code="missing_required_parameter",
                    param=at,
                )
    return ids


def _check_tools(request: dict[str, Any]) -> None:
    if request.get("tools") is None:
        for name in ("tool_choice", "parallel_tool_calls"):
            if request.get(name) is not None:
                raise RequestRefused(400, _ONLY_WITH_TOOLS.format(name), param=name)
        return
    names: list[str] = []
    for place, made in enumerate(checked_array(request["tools"], "tools")):
        match made:
            case {"type": "function", "function": {"name": str(name)}}:
                check_name(name, f"tools[{place}].function.name")
                names.append(name)
            case {"type": "custom", "custom": {"name": str(name)}}:
                names.append(name)
            case _:
                raise RequestRefused(
                    400,
                    f"Missing required parameter: 'tools[{place}].function'.",
                    code="missing_required_parameter",
                    param=f"tools[{place}].function",
                )
    _check_tool_choice(request.get("tool_choice"), names)


def _check_tool_choice(choice: object, names: list[str]) -> None:
    match choice:
        case None | "auto" | "none" | "required" | {"type": "allowed_tools"}:
            return
        case {"type": "function", "function": {"name": str(name)}} if name in names:
            return
        case {"type": "function", "function": {"name": str(name)}}:
            text = f"Invalid value for 'tool_choice': function '{name}' is not in 'tools'."
            raise RequestRefused(400, text, param="tool_choice")
        case _:
            raise wrong_value(choice, ("none", "auto", "required"), "tool_choice")


def check_name(name: str, where: str) -> None:
    if not _NAME.fullmatch(name):
        raise RequestRefused(
            400,
            f"Invalid '{where}': string does not match pattern. Expected a string that matches the "
            "pattern '^[a-zA-Z0-9_-]+$'.",
            code="invalid_value",
            param=where,
        )
    if len(name) > MAX_NAME_LENGTH:
        raise RequestRefused(
            400,
            f"Invalid '{where}': string too long. Expected a string with maximum length "
            f"{MAX_NAME_LENGTH}, but got a string with length {len(name)} instead.",
            code="string_above_max_length",
            param=where,
        )


def _unanswered(ids: list[str], place: int) -> RequestRefused:
    return RequestRefused(400, _UNANSWERED.format(", ".join(ids)), param=f"messages.[{place}].role")


def wrong_type(where: str, wanted: str, value: object) -> RequestRefused:
    text = f"Invalid type for '{where}': expected {wanted}, but got {kind_of(value)} instead."
    return RequestRefused(400, text, code="invalid_type", param=where)


def wrong_value(value: object, wanted: tuple[str, ...], where: str) -> RequestRefused:
    listed = ", ".join(f"'{word}'" for word in wanted[:-1])
    text = f"Invalid value: '{value}'. Supported values are: {listed}, and '{wanted[-1]}'."
    return RequestRefused(400, text, code="invalid_value", param=where)


def kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
