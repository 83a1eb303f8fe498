"""Validation of Messages requests, with Anthropic's error messages."""

import base64
import hashlib
import re
from typing import Any, cast

from msgspec import Struct

from windlass.testing.exchange import RequestRefused

_ROLES = ("user", "assistant", "system")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_BLOCKS: dict[str, frozenset[str]] = {
    "user": frozenset({"text", "image", "document", "search_result", "tool_result"}),
    "assistant": frozenset(
        {
            "text",
            "thinking",
            "redacted_thinking",
            "tool_use",
            "server_tool_use",
            "web_search_tool_result",
            "mcp_tool_use",
            "mcp_tool_result",
        }
    ),
    "system": frozenset({"text"}),
}
_UNANSWERED = (
    "{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each "
    "`tool_use` block must have a corresponding `tool_result` block in the next message."
)
_ORPHAN = (
    "{}: unexpected `tool_use_id` found in `tool_result` blocks: {}. Each `tool_result` block must "
    "have a corresponding `tool_use` block in the previous message."
)
_BLANK = "{}: text content blocks must contain non-whitespace text"
_SIGNATURE = "{}: Invalid `signature` in `thinking` block"
MAX_CACHE_MARKS = 4
MIN_BUDGET = 1024


class AnthropicRules(Struct, frozen=True, kw_only=True):
    """What the model of a request supports."""

    max_tokens: int = 128_000
    system_turns: bool = True
    adaptive: bool = True
    """Whether thinking is controlled by an effort instead of a budget."""
    sampling: bool = True


ANY_MODEL = AnthropicRules()


def signature_of(thinking: str) -> str:
    """The signature of a thinking block, which depends on its text."""
    digest = hashlib.sha256(f"windlass fake {thinking}".encode("utf-8", "replace")).digest()
    return base64.b64encode(digest).decode()


def check_messages_request(
    body: object,
    rules: AnthropicRules = ANY_MODEL,
    *,
    counting: bool = False,
) -> dict[str, Any]:
    """The body, if Anthropic would accept it. Raises `RequestRefused`.

    A request that only counts tokens (`counting`) has no limit.
    """
    if not isinstance(body, dict):
        raise RequestRefused(400, "The request body is not valid JSON")
    request = cast("dict[str, Any]", body)
    if not isinstance(request.get("model"), str) or not request["model"]:
        raise _missing("model")
    if not counting:
        _check_limit(request, rules)
    _check_system(request.get("system"))
    _check_conversation(_list(request.get("messages"), "messages"), rules)
    _check_tools(request)
    _check_thinking(request, rules)
    _check_sampling(request, rules)
    marks = _cache_marks(request)
    if marks > MAX_CACHE_MARKS:
        raise RequestRefused(
            400,
            f"A maximum of {MAX_CACHE_MARKS} blocks with cache_control may be provided. "
            f"Found {marks}.",
        )
    return request


def _check_limit(request: dict[str, Any], rules: AnthropicRules) -> None:
    limit = request.get("max_tokens")
    if limit is None:
        raise _missing("max_tokens")
    if type(limit) is not int:
        raise RequestRefused(400, "max_tokens: Input should be a valid integer")
    if limit < 1:
        raise RequestRefused(400, "max_tokens: must be greater than or equal to 1")
    if limit > rules.max_tokens:
        raise RequestRefused(
            400,
            f"max_tokens: {limit} > {rules.max_tokens}, which is the maximum allowed number of "
            f"output tokens for {request['model']}",
        )


def _check_system(system: object) -> None:
    if system is None or isinstance(system, str):
        return
    for place, block in enumerate(_list(system, "system")):
        where = f"system.{place}"
        _check_text(_block(block, where, _BLOCKS["system"]), where)


def _check_conversation(messages: list[Any], rules: AnthropicRules) -> None:
    turns: list[tuple[str, list[dict[str, Any]], int]] = []
    for place, value in enumerate(messages):
        message = _object(value, f"messages.{place}")
        role = message.get("role")
        if role not in _ROLES:
            raise RequestRefused(
                400, f"messages.{place}.role: Input should be 'user' or 'assistant'"
            )
        if role == "system" and not (rules.system_turns and turns and turns[-1][0] == "user"):
            raise RequestRefused(400, f"messages.{place}: role 'system' is not supported here")
        blocks = _content(message, str(role), f"messages.{place}.content", place)
        if role == "system":
            continue
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)  # Anthropic joins adjacent turns of one role
        else:
            turns.append((str(role), blocks, place))
    if turns[0][0] != "user":
        raise RequestRefused(400, 'messages: first message must use the "user" role')
    _check_results(turns)


def _content(message: dict[str, Any], role: str, where: str, place: int) -> list[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        if not content:
            raise RequestRefused(
                400, f"messages.{place}: user messages must have non-empty content"
            )
        return [{"type": "text", "text": content}]
    blocks: list[dict[str, Any]] = []
    for index, value in enumerate(_list(content, where)):
        at = f"{where}.{index}"
        block = _block(value, at, _BLOCKS[role])
        _CHECKS.get(block["type"], _no_check)(block, at)
        blocks.append(block)
    return blocks


def _check_results(turns: list[tuple[str, list[dict[str, Any]], int]]) -> None:
    """Results are at the beginning of the turn that follows their calls, each exactly once."""
    open_ids: list[str] = []
    for role, blocks, place in turns:
        where = f"messages.{place}"
        if role == "assistant":
            open_ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if len(set(open_ids)) < len(open_ids):
                raise RequestRefused(400, f"{where}: `tool_use` ids must be unique")
            continue
        leading = True
        for index, block in enumerate(blocks):
            if block["type"] != "tool_result":
                leading = False
                continue
            call_id = block["tool_use_id"]
            if call_id not in open_ids or not leading:
                raise RequestRefused(400, _ORPHAN.format(f"{where}.content.{index}", call_id))
            open_ids.remove(call_id)
        if open_ids:
            raise RequestRefused(400, _UNANSWERED.format(where, ", ".join(open_ids)))
    if open_ids:
        last = turns[-1][2]
        raise RequestRefused(400, _UNANSWERED.format(f"messages.{last}", ", ".join(open_ids)))


def _no_check(block: dict[str, Any], where: str) -> None:
    pass


def _check_text(block: dict[str, Any], where: str) -> None:
    if not isinstance(block.get("text"), str):
        raise _missing(f"{where}.text")
    if not block["text"].strip():
        raise RequestRefused(400, _BLANK.format(where))


def _check_thinking_block(block: dict[str, Any], where: str) -> None:
    if not isinstance(block.get("thinking"), str):
        raise _missing(f"{where}.thinking")
    if block.get("signature") != signature_of(block["thinking"]):
        raise RequestRefused(400, _SIGNATURE.format(where))


def _check_call(block: dict[str, Any], where: str) -> None:
    _check_id(block.get("id"), f"{where}.id")
    if not isinstance(block.get("input"), dict):
        raise RequestRefused(400, f"{where}.input: Input should be a valid dictionary")
    name = block.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RequestRefused(400, f"{where}.name: String should match pattern '{_NAME.pattern}'")


def _check_result(block: dict[str, Any], where: str) -> None:
    _check_id(block.get("tool_use_id"), f"{where}.tool_use_id")
    content = block.get("content")
    if content is None or isinstance(content, str):
        return
    allowed = frozenset({"text", "image", "document", "search_result", "tool_reference"})
    for index, value in enumerate(_list(content, f"{where}.content", empty=True)):
        at = f"{where}.content.{index}"
        inner = _block(value, at, allowed)
        _CHECKS.get(inner["type"], _no_check)(inner, at)


def _check_media(block: dict[str, Any], where: str) -> None:
    kinds = ("base64", "url", "file", "text", "content")
    match block.get("source"):
        case {"type": "base64", "media_type": str(), "data": str(data)}:
            try:
                base64.b64decode(data, validate=True)
            except ValueError:
                raise RequestRefused(400, f"{where}.source.data: invalid base64 data") from None
        case {"type": str(kind)} if kind in kinds:
            pass
        case _:
            raise _missing(f"{where}.source")


_CHECKS = {
    "text": _check_text,
    "thinking": _check_thinking_block,
    "tool_use": _check_call,
    "tool_result": _check_result,
    "image": _check_media,
    "document": _check_media,
}


def _check_tools(request: dict[str, Any]) -> None:
    tools = request.get("tools")
    names: list[str] = []
    for place, value in enumerate([] if tools is None else _list(tools, "tools", empty=True)):
        tool = _object(value, f"tools.{place}")
        where = f"tools.{place}.{tool.get('type') or 'custom'}"
        name = tool.get("name")
        if tool.get("type") == "mcp_toolset":
            continue
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise RequestRefused(
                400, f"{where}.name: String should match pattern '^{_NAME.pattern}$'"
            )
        if tool.get("type") in (None, "custom"):
            schema = tool.get("input_schema")
            if not isinstance(schema, dict):
                raise _missing(f"{where}.input_schema")
            if cast("dict[str, Any]", schema).get("type") != "object":
                raise RequestRefused(400, f"{where}.input_schema.type: Input should be 'object'")
        if name in names:
            raise RequestRefused(400, "tools: Tool names must be unique.")
        names.append(name)
    _check_tool_choice(request.get("tool_choice"), names)


def _check_tool_choice(choice: object, names: list[str]) -> None:
    match choice:
        case None:
            return
        case {"type": "auto" | "any" | "none" | "tool"} if not names:
            raise RequestRefused(400, "tool_choice may only be specified while providing tools.")
        case {"type": "auto" | "any" | "none"}:
            return
        case {"type": "tool", "name": str(name)} if name in names:
            return
        case {"type": "tool", "name": str(name)}:
            raise RequestRefused(400, f"Tool '{name}' not found in provided tools")
        case _:
            raise RequestRefused(400, "tool_choice: Input should be a valid dictionary")


def _check_thinking(request: dict[str, Any], rules: AnthropicRules) -> None:
    config = request.get("thinking")
    if config is None:
        return
    forced = cast("dict[str, Any]", request.get("tool_choice") or {}).get("type") in ("any", "tool")
    match config:
        case {"type": "disabled"}:
            return
        case _ if forced:
            raise RequestRefused(
                400, "Thinking may not be enabled when tool_choice forces tool use."
            )
        case {"type": "adaptive"} if rules.adaptive:
            return
        case {"type": "adaptive"}:
            raise RequestRefused(400, "adaptive thinking is not supported on this model")
        case {"type": "enabled", "budget_tokens": int()} if rules.adaptive:
            raise RequestRefused(
                400,
                '"thinking.type.enabled" is not supported for this model. Use '
                '"thinking.type.adaptive" and "output_config.effort" to control thinking behavior.',
            )
        case {"type": "enabled", "budget_tokens": int(budget)}:
            if budget < MIN_BUDGET:
                raise RequestRefused(
                    400,
                    "thinking.enabled.budget_tokens: Input should be greater than or equal to"
                    f" {MIN_BUDGET}",
                )
            if budget >= request.get("max_tokens", budget + 1):
                raise RequestRefused(
                    400, "`max_tokens` must be greater than `thinking.budget_tokens`."
                )
        case _:
            raise RequestRefused(400, "thinking: Input tag does not match any of the expected tags")


def _check_sampling(request: dict[str, Any], rules: AnthropicRules) -> None:
    given = [name for name in ("temperature", "top_p", "top_k") if request.get(name) is not None]
    if given and not rules.sampling:
        raise RequestRefused(400, f"`{given[0]}` is deprecated for this model.")
    thinking = cast("dict[str, Any]", request.get("thinking") or {}).get("type")
    is_thinking = thinking in ("enabled", "adaptive")
    if is_thinking and request.get("temperature") not in (None, 1):
        raise RequestRefused(400, "`temperature` may only be set to 1 when thinking is enabled.")


def _cache_marks(value: object) -> int:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        own = 1 if isinstance(fields.get("cache_control"), dict) else 0
        return own + sum(map(_cache_marks, fields.values()))
    if isinstance(value, list):
        return sum(map(_cache_marks, cast("list[Any]", value)))
    return 0


def _check_id(value: object, where: str) -> None:
    if not isinstance(value, str) or not value:
        raise _missing(where)
    if not _CALL_ID.fullmatch(value):
        raise RequestRefused(400, f"{where}: String should match pattern '^{_CALL_ID.pattern}$'")


def _block(value: object, where: str, allowed: frozenset[str]) -> dict[str, Any]:
    block = _object(value, where)
    if block.get("type") not in allowed:
        found = f"Input tag '{block.get('type')}' found using 'type' does not match any of the"
        tags = ", ".join(f"'{name}'" for name in sorted(allowed))
        raise RequestRefused(400, f"{where}: {found} expected tags: {tags}")
    return block


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RequestRefused(400, f"{where}: Input should be a valid dictionary")
    return cast("dict[str, Any]", value)


def _list(value: object, where: str, *, empty: bool = False) -> list[Any]:
    if value is None:
        raise _missing(where)
    if not isinstance(value, list):
        raise RequestRefused(400, f"{where}: Input should be a valid list")
    items = cast("list[Any]", value)
    if not items and not empty:
        raise RequestRefused(400, f"{where}: at least one message is required")
    return items


def _missing(where: str) -> RequestRefused:
    return RequestRefused(400, f"{where}: Field required")
