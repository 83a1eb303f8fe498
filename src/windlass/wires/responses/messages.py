"""Reads and writes the items of a conversation: messages, calls, results, reasoning. Pure.

Fields without a counterpart are kept in `extra["responses"]`. A reasoning item is kept whole, so
that it is returned to its provider unchanged. Items of the provider's own tools are `Opaque`.
"""

import base64
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast

import msgspec
from msgspec import Struct

from windlass.content import (
    AnyPart,
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Message,
    Opaque,
    Role,
    Text,
    Thought,
    text_once,
)
from windlass.jsontext import compact_json
from windlass.request import PartPlace, inherited
from windlass.wires.errors import InvalidRequest
from windlass.wires.fields import (
    JsonObject,
    as_list,
    as_object,
    as_text,
    in_words,
    merged,
    misplaced,
    rest,
)
from windlass.wires.responses.item_ids import item_id, response_of_item
from windlass.wires.responses.media import KINDS, PROVIDER, decode_media, encode_media, is_audio
from windlass.wires.responses.tools import NO_NAMES, ToolNames, flat_name

OWN_SERVER = "windlass"
"""The `server_label` of the gateway's own tools."""
_COMPACTED = "windlass:1:"
"""The start of the content of a compaction item that this wire wrote."""
_TEXT_TYPES = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}
KEPT_ITEMS = frozenset(
    {
        "apply_patch_call",
        "apply_patch_call_output",
        "code_interpreter_call",
        "computer_call",
        "computer_call_output",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "web_search_call",
    }
)
"""Items of tools that OpenAI runs or defines: kept for a model on the same wire."""
SKIPPED_ITEMS = frozenset(
    {
        "additional_tools",
        "compaction_trigger",
        "configuration_update",
        "mcp_approval_request",
        "mcp_list_tools",
        "program",
        "program_output",
        "tool_search_call",
        "tool_search_output",
    }
)
"""Items that are useless to a model without the tool that they belong to."""


class McpApproval(Struct, frozen=True):
    """A client's decision on a call that waits for approval."""

    request_id: str
    """The id of the `mcp_approval_request` item."""
    approve: bool
    reason: str | None = None
    place: str = "input"


class DecodedInput(Struct, frozen=True):
    """The conversation in `input`, and what does not belong to it."""

    messages: tuple[Message, ...]
    approvals: tuple[McpApproval, ...] = ()
    parts: tuple[PartPlace, ...] = ()


def referenced_ids(items: Sequence[object]) -> tuple[str, ...]:
    """The ids of stored items that the input refers to."""
    found = (_reference(as_object(item) or {}) for item in items)
    return tuple(item for item in found if item is not None)


def _reference(fields: JsonObject) -> str | None:
    kind = fields.get("type")
    if kind == "item_reference" or (kind is None and fields.keys() == {"id"}):
        return as_text(fields.get("id"))
    return None


def decode_input(
    value: object,
    *,
    names: ToolNames = NO_NAMES,
    whole: bool = True,
    stored: Mapping[str, JsonObject] | None = None,
) -> DecodedInput:
    """Reads `input`: a string, or a list of items. Raises `InvalidRequest`, which names the field.

    `stored` has the items that the input refers to. If the input is not `whole`, a result may
    answer a call that is missing here; its name is then empty.
    """
    if isinstance(value, str):
        return DecodedInput((Message.user(value),))
    items = as_list(value)
    if items is None:
        raise InvalidRequest("input: must be a string or a list of items", "input")
    reader = _ItemReader(names, whole, stored or {})
    for index, item in enumerate(items):
        reader.read(item, f"input[{index}]")
    return DecodedInput(reader.messages(), tuple(reader.approvals), tuple(reader.parts))


class _Draft:
    """A message that is being read. A turn of the model has the results of its calls beside it."""

    __slots__ = ("extra", "is_over", "parts", "results", "role")

    def __init__(self, role: Role, extra: JsonObject | None = None) -> None:
        self.role: Role = role
        self.parts: list[AnyPart] = []
        self.extra: JsonObject = extra or {}
        self.results: dict[str, FunctionResponse] = {}
        self.is_over = False
        """Whether the client has sent a result: later calls belong to another turn."""

    def is_waiting(self) -> bool:
        calls = (part.id for part in self.parts if isinstance(part, FunctionCall))
        return not self.is_over and not all(call in self.results for call in calls)

    def messages(self) -> Iterable[Message]:
        if self.parts:
            yield Message(self.role, tuple(self.parts), self.extra)
        if self.results:
            # In call order: some providers match results by position.
            calls = [part.id for part in self.parts if isinstance(part, FunctionCall)]
            order = {call_id: number for number, call_id in enumerate(calls)}
            results = sorted(self.results.values(), key=lambda each: order.get(each.id, len(order)))
            yield Message("tool", tuple(results))


class _ItemReader:
    """Reads items one by one. Adjacent items of the model become one turn."""

    def __init__(self, names: ToolNames, whole: bool, stored: Mapping[str, JsonObject]) -> None:
        self._names, self._whole, self._stored = names, whole, stored
        self._drafts: list[_Draft] = []
        self._calls: dict[str, tuple[_Draft, str]] = {}
        self._restored: dict[int, tuple[Message, ...]] = {}
        self.approvals: list[McpApproval] = []
        self.parts: list[PartPlace] = []

    def messages(self) -> tuple[Message, ...]:
        found: list[Message] = []
        for draft in self._drafts:
            found += self._restored.get(id(draft), ())
            found += draft.messages()
        return tuple(found)

    def read(self, value: object, place: str) -> None:
        fields = _object(value, place)
        if (reference := _reference(fields)) is not None:
            if reference not in self._stored:
                raise InvalidRequest(
                    f"{place}.id: Item with id {reference!r} not found.", f"{place}.id"
                )
            fields = self._stored[reference]
        kind = fields.get("type")
        if kind is None and "role" in fields:
            kind = "message"
        read = self._READERS.get(kind) if isinstance(kind, str) else None
        if read is not None:
            read(self, fields, place)
        elif kind in KEPT_ITEMS:
            self._turn().parts.append(Opaque(PROVIDER, fields))
        elif kind not in SKIPPED_ITEMS:
            known = ", ".join(sorted({*self._READERS, *KEPT_ITEMS, *SKIPPED_ITEMS}))
            raise InvalidRequest(
                f"{place}.type: unknown type {kind!r} of an item (known: {known})",
                f"{place}.type",
                "invalid_value",
            )

    def _turn(self, *, calling: bool = False) -> _Draft:
        """The current turn of the model. A turn whose calls have results is over.

        One with results of the server alone, where a call of the client still has none, continues
        with calls: they were made together.
        """
        last = self._drafts[-1] if self._drafts else None
        is_open = last is not None and (not last.results or (calling and last.is_waiting()))
        if last is None or last.role != "assistant" or not is_open:
            last = _Draft("assistant")
            self._drafts.append(last)
        return last

    def _message(self, fields: JsonObject, place: str) -> None:
        role = fields.get("role")
        known = _ROLES.get(role) if isinstance(role, str) else None
        if known is None:
            raise InvalidRequest(
                f"{place}.role: must be one of {', '.join(_ROLES)}", f"{place}.role"
            )
        content = self._content(fields.get("content"), f"{place}.content")
        if known == "assistant":
            extra = rest(fields, "type", "role", "content", "id", "status")
            if extra and content:
                first = content[0]
                given = {**extra, **first.extra.get(PROVIDER, {})}
                content[0] = msgspec.structs.replace(first, extra={PROVIDER: given})
            self._turn().parts.extend(content)
            return
        extra: JsonObject = {PROVIDER: {"role": role}} if role != known else {}
        draft = _Draft(known, extra)
        draft.parts = content
        self._drafts.append(draft)

    def _content(self, value: object, place: str, *, in_result: bool = False) -> list[AnyPart]:
        if isinstance(value, str):
            return [Text(value)]
        items = as_list(value)
        if items is None:
            raise InvalidRequest(f"{place}: must be a string or a list of parts", place)
        return [self._part(item, f"{place}[{n}]", in_result) for n, item in enumerate(items)]

    def _part(self, value: object, place: str, in_result: bool) -> AnyPart:
        part = _object(value, place)
        kind = as_text(part.get("type"))
        if kind is None:
            raise InvalidRequest(f"{place}.type: must be a string", f"{place}.type")
        if kind in _TEXT_TYPES:
            text = as_text(part.get("text"))
            if text is None:
                raise InvalidRequest(f"{place}.text: must be a string", f"{place}.text")
            extra = {k: v for k, v in rest(part, "type", "text").items() if v != []}
            return Text(text, extra={PROVIDER: extra} if extra else {})
        if kind == "refusal":
            refusal = as_text(part.get("refusal"))
            if refusal is None:
                raise InvalidRequest(f"{place}.refusal: must be a string", f"{place}.refusal")
            return Opaque(PROVIDER, {"type": "refusal", "refusal": refusal})
        found = decode_media(part, place)
        what = "other" if isinstance(found, Opaque) else KINDS.get(kind, "other")
        self.parts.append(PartPlace(place, kind, what, in_result))
        return found

    def _reasoning(self, fields: JsonObject, place: str) -> None:
        self._turn().parts.append(Thought(reasoning_text(fields), extra={PROVIDER: fields}))

    def _function_call(self, fields: JsonObject, place: str) -> None:
        arguments = fields.get("arguments")
        if not isinstance(arguments, str):
            raise InvalidRequest(f"{place}.arguments: must be a string", f"{place}.arguments")
        extra = rest(fields, "type", "id", "call_id", "name", "namespace", "arguments", "status")
        self._call(fields, arguments, place, {PROVIDER: extra} if extra else {})

    def _custom_call(self, fields: JsonObject, place: str) -> None:
        text = fields.get("input")
        if not isinstance(text, str):
            raise InvalidRequest(f"{place}.input: must be a string", f"{place}.input")
        self._call(fields, compact_json({"input": text}), place, {})

    def _call(self, fields: JsonObject, json: str, place: str, extra: JsonObject) -> None:
        call_id = _text(fields.get("call_id"), f"{place}.call_id")
        name = _text(fields.get("name"), f"{place}.name")
        self._add_call(
            FunctionCall(
                self._names.inward(name, as_text(fields.get("namespace"))),
                json,
                call_id,
                extra=extra,
            )
        )

    def _add_call(self, call: FunctionCall) -> _Draft:
        turn = self._turn(calling=True)
        turn.parts.append(call)
        self._calls[call.id] = (turn, call.name)
        return turn

    def _call_output(self, fields: JsonObject, place: str) -> None:
        call_id = _text(fields.get("call_id"), f"{place}.call_id")
        parts = self._content(fields.get("output"), f"{place}.output", in_result=True)
        text = "".join(part.text for part in parts if isinstance(part, Text))
        media = tuple(part for part in parts if isinstance(part, InlineData | FileData))
        known = self._calls.get(call_id)
        if known is None and self._whole:
            raise InvalidRequest(
                f"{place}.call_id: No tool call found for function call output with call_id"
                f" {call_id}.",
                f"{place}.call_id",
            )
        turn, name = known or (self._results_of_stored_calls(), "")
        turn.results[call_id] = FunctionResponse(name, {"output": text}, call_id, media)
        if response_of_item(as_text(fields.get("id")) or "") is None:
            turn.is_over = True

    def _results_of_stored_calls(self) -> _Draft:
        last = self._drafts[-1] if self._drafts else None
        if last is None or last.role != "tool":
            last = _Draft("tool")
            self._drafts.append(last)
        return last

    def _mcp_call(self, fields: JsonObject, place: str) -> None:
        """A call that the server has run: the call and its result."""
        label = as_text(fields.get("server_label")) or ""
        name = _text(fields.get("name"), f"{place}.name")
        call_id = _text(fields.get("id"), f"{place}.id")
        arguments = as_text(fields.get("arguments")) or "{}"
        flat = flat_name("" if label == OWN_SERVER else label, name)
        turn = self._add_call(FunctionCall(flat, arguments, call_id))
        error = fields.get("error")
        output = as_text(fields.get("output")) or ""
        result: JsonObject = {"output": output} if error is None else {"error": error_text(error)}
        turn.results[call_id] = FunctionResponse(flat, result, call_id)

    def _approval_response(self, fields: JsonObject, place: str) -> None:
        request = _text(fields.get("approval_request_id"), f"{place}.approval_request_id")
        approve = fields.get("approve")
        if not isinstance(approve, bool):
            raise InvalidRequest(f"{place}.approve: must be true or false", f"{place}.approve")
        self.approvals.append(McpApproval(request, approve, as_text(fields.get("reason")), place))

    def _compaction(self, fields: JsonObject, place: str) -> None:
        content = _text(fields.get("encrypted_content"), f"{place}.encrypted_content")
        if not content.startswith(_COMPACTED):
            self._turn().parts.append(Opaque(PROVIDER, fields))
            return
        draft = _Draft("user")
        self._restored[id(draft)] = _restored(content, f"{place}.encrypted_content")
        self._drafts.append(draft)

    # On the class: a table of bound methods would be a reference cycle.
    _READERS: ClassVar[dict[str, Callable[..., None]]] = {
        "message": _message,
        "reasoning": _reasoning,
        "function_call": _function_call,
        "function_call_output": _call_output,
        "custom_tool_call": _custom_call,
        "custom_tool_call_output": _call_output,
        "mcp_call": _mcp_call,
        "mcp_approval_response": _approval_response,
        "compaction": _compaction,
        "compaction_summary": _compaction,
    }


def _object(value: object, place: str) -> JsonObject:
    fields = as_object(value)
    if fields is None:
        raise InvalidRequest(f"{place}: must be an object", place)
    return fields


def _text(value: object, place: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise InvalidRequest(f"{place}: must be a non-empty string", place)


def reasoning_text(item: JsonObject) -> str:
    """The text of a reasoning item: its summary, or else its content."""
    for field in ("summary", "content"):
        parts = [as_object(part) or {} for part in as_list(item.get(field)) or ()]
        if joined := "\n\n".join(filter(None, (as_text(part.get("text")) for part in parts))):
            return joined
    return ""


def error_text(error: object) -> str:
    """The text of the error of an `mcp_call`."""
    fields = as_object(error) or {"message": error}
    if (content := as_list(fields.get("content"))) is not None:
        parts = (as_object(part) or {} for part in content)
        return "\n".join(filter(None, (as_text(part.get("text")) for part in parts)))
    return as_text(fields.get("message")) or compact_json(error)


# Compaction: the messages that a compacted conversation consists of, as one opaque item.


def compaction_item(response: str, messages: Sequence[Message]) -> JsonObject:
    """An item that contains these messages. `decode_input` reads it as the messages again."""
    packed = zlib.compress(msgspec.json.encode([message.to_dict() for message in messages]))
    return {
        "id": item_id("compaction", response, 0),
        "type": "compaction",
        "encrypted_content": _COMPACTED + base64.b64encode(packed).decode(),
    }


def _restored(content: str, place: str) -> tuple[Message, ...]:
    try:
        packed = base64.b64decode(content.removeprefix(_COMPACTED), validate=True)
        values = msgspec.json.decode(_inflated(packed), type=list[dict[str, Any]])
        return tuple(Message.from_dict(value) for value in values)
    except (ValueError, zlib.error, msgspec.DecodeError, msgspec.ValidationError, TypeError):
        raise InvalidRequest(f"{place}: not the content of a compaction item", place) from None


MAX_COMPACTED = 16 * 2**20
"""Bytes of a compacted conversation after decompression."""


def _inflated(packed: bytes) -> bytes:
    inflater = zlib.decompressobj()
    data = inflater.decompress(packed, MAX_COMPACTED)
    if inflater.unconsumed_tail:
        raise ValueError("too large")
    return data


# Writing.


NO_CALLS: frozenset[str] = frozenset()


def encode_message(message: Message, custom_calls: frozenset[str] = NO_CALLS) -> list[JsonObject]:
    """The items of one message. `custom_calls` are the ids of calls that took free text.

    Thoughts without their original item are omitted, and so is reasoning that nothing follows:
    the service refuses it. Raises `ConfigError` for a part that this wire does not support.
    """
    if message.role == "assistant":
        return _encode_turn(message)
    results = [_encode_result(part, custom_calls) for part in message.responses]
    results += _result_audio(message.responses)
    others = [part for part in message.parts if not isinstance(part, FunctionResponse)]
    if not others and message.role != "system":
        return results
    content: list[JsonObject] = []
    for index, part in enumerate(message.parts):
        match part:
            case FunctionResponse() if message.role != "system":
                pass
            case Text():
                fields = {"type": "input_text", "text": part.text}
                content.append(merged(fields, part.extra.get(PROVIDER, {})))
            case InlineData() | FileData():
                content.append(encode_media(part))
            case Opaque(provider=provider, data=data) if provider == PROVIDER:
                content.append(data)
            case _:
                raise misplaced(message, index, "Responses")
    own: JsonObject = message.extra.get(PROVIDER, {})
    role = own.get("role") or ("user" if message.role == "tool" else message.role)
    is_plain = len(content) == 1 and content[0].keys() == {"type", "text"}
    said = content[0]["text"] if is_plain else content
    return [*results, {"type": "message", "role": role, "content": said}]


def _encode_turn(message: Message) -> list[JsonObject]:
    items: list[JsonObject] = []
    content: list[JsonObject] | None = None
    """The content of the message item that the next text continues."""
    for index, part in enumerate(message.parts):
        own: JsonObject = part.extra.get(PROVIDER, {})
        match part:
            case Text() | Opaque(data={"type": "refusal"}):
                content = _say(items, content, part, own)
                continue
            case Opaque(provider=provider) if provider != PROVIDER:
                content = _say(items, content, in_words(part), {})
                continue
            case Thought():
                if own and _is_known_upstream(own):
                    items.append(_without_own_id(own))
            case FunctionCall():
                items.append(_encode_call(part, own))
            case InlineData() | FileData():
                items.append({"type": "message", "role": "user", "content": [encode_media(part)]})
            case Opaque(data=data):
                items.append(_without_own_id(data))
            case FunctionResponse():
                raise misplaced(message, index, "Responses")
        content = None
    refusal = as_text((as_object(message.extra.get(PROVIDER)) or {}).get("refusal"))
    if refusal:
        _say(items, content, Opaque(PROVIDER, {"type": "refusal", "refusal": refusal}), {})
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def _say(
    items: list[JsonObject],
    content: list[JsonObject] | None,
    part: Text | Opaque,
    own: JsonObject,
) -> list[JsonObject] | None:
    """Adds the part to the current message item, or to a new one. Returns the item's content."""
    if isinstance(part, Text):
        item_fields = {key: own[key] for key in own if key not in _PART_FIELDS}
        part_fields = {key: own[key] for key in own if key in _PART_FIELDS}
        if not part.text and not item_fields:
            if content and part_fields and content[-1].get("type") == "output_text":
                content[-1] |= part_fields
            return content
        added: list[JsonObject] = (
            [{"type": "output_text", "text": part.text, **part_fields}] if part.text else []
        )
    else:
        item_fields, added = {}, [{"type": "refusal", "refusal": part.data.get("refusal", "")}]
    if content is None or item_fields:
        content = []
        items.append({"type": "message", "role": "assistant", "content": content, **item_fields})
    content += added
    return content


_PART_FIELDS = frozenset({"annotations", "logprobs"})


def _is_known_upstream(item: JsonObject) -> bool:
    """Whether the service can use the reasoning item. One that only this gateway knows is not."""
    if item.get("encrypted_content") or item.get("content"):
        return True
    own_id = as_text(item.get("id"))
    return bool(own_id) and response_of_item(own_id or "") is None


def _without_own_id(item: JsonObject) -> JsonObject:
    """The item without an id that a gateway made, which the service does not know."""
    own_id = as_text(item.get("id"))
    if own_id is None or response_of_item(own_id) is None:
        return item
    return {key: value for key, value in item.items() if key != "id"}


def _encode_call(call: FunctionCall, own: JsonObject) -> JsonObject:
    if own.get("type") == "custom_tool_call":
        fields = {"call_id": call.id, "name": call.name, "input": free_text(call.json)}
        return merged({"type": "custom_tool_call", **fields}, own)
    fields = {"call_id": call.id, "name": call.name, "arguments": call.json or "{}"}
    return merged({"type": "function_call", **fields}, own)


def free_text(json: str) -> str:
    """The free text of a custom tool's call, from its JSON arguments `{"input": text}`."""
    arguments = FunctionCall("", json).arguments
    if isinstance(arguments, str):
        return arguments
    text = arguments.get("input")
    if text is None and len(arguments) == 1:
        text = next(iter(arguments.values()))
    if text is None and not arguments:
        return ""
    return text if isinstance(text, str) else json


def _encode_result(part: FunctionResponse, custom_calls: frozenset[str]) -> JsonObject:
    kind = "custom_tool_call_output" if part.id in custom_calls else "function_call_output"
    return {"type": kind, "call_id": part.id, "output": result_output(part)}


def _result_audio(responses: Sequence[FunctionResponse]) -> list[JsonObject]:
    """Audio of results as a user message: an `output` may have text, images and files only."""
    content: list[JsonObject] = []
    for part in responses:
        if audio := [encode_media(each) for each in part.parts if is_audio(each)]:
            text = f"Media from the tool {part.name} ({part.id}):"
            content += [{"type": "input_text", "text": text}, *audio]
    return [{"type": "message", "role": "user", "content": content}] if content else []


def result_output(part: FunctionResponse) -> str | list[JsonObject]:
    """The `output` of a result: its text, or a list if it has images or files."""
    media = [encode_media(each) for each in part.parts if not is_audio(each)]
    text = text_once(part)
    return [{"type": "input_text", "text": text}, *media] if media else text


def is_custom_call(part: AnyPart) -> bool:
    """Whether the model called a custom tool, whose result has its own item type."""
    return (
        isinstance(part, FunctionCall)
        and bool(part.extra)
        and part.extra.get(PROVIDER, {}).get("type") == "custom_tool_call"
    )


def input_items(
    messages: Sequence[Message], response: str, names: ToolNames = NO_NAMES
) -> list[JsonObject]:
    """The messages as items with ids, for `input_items` and the items of a conversation."""
    items: list[JsonObject] = []
    custom: set[str] = set()
    for message in inherited(messages):
        for fields in encode_message(message):
            item = _with_client_names(fields, names, custom)
            index = f"i{len(items)}"
            given = as_text(item.get("id"))
            items.append({"id": given or item_id(item["type"], response, index), **item})
    return items


def _with_client_names(item: JsonObject, names: ToolNames, custom: set[str]) -> JsonObject:
    """The item as the client knows it. Adds the ids of calls of custom tools to `custom`."""
    match item:
        case {"type": "function_call", "name": str(flat), "call_id": str(call_id)}:
            known = names.fields(flat)
            if not names.outward(flat).custom:
                return {**item, **known, "status": "completed"}
            custom.add(call_id)
            text = free_text(item["arguments"])
            return {"type": "custom_tool_call", "call_id": call_id, **known, "input": text}
        case {"type": "function_call_output", "call_id": str(call_id)}:
            kind = "custom_tool_call_output" if call_id in custom else item["type"]
            return {**item, "type": kind, "status": "completed"}
        case {"type": "message", "content": str(text), "role": role}:
            part = "output_text" if role == "assistant" else "input_text"
            return {**item, "status": "completed", "content": [{"type": part, "text": text}]}
        case {"type": "message", "role": "assistant", "content": content}:
            parts = cast("list[JsonObject]", content)
            for_client = [_output_part(part) for part in parts]
            return {**item, "status": "completed", "content": for_client}
        case {"type": "message"}:
            return {**item, "status": "completed"}
        case _:
            return item


def _output_part(part: JsonObject) -> JsonObject:
    return {"annotations": [], **part} if part.get("type") == "output_text" else part
