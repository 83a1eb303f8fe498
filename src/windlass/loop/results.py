"""From what a tool gives back to what the record keeps and the model reads. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from windlass.content import FileData, FunctionCall, FunctionResponse, InlineData
from windlass.events import Outcome
from windlass.jsontext.large import STEP, encode_any_json, is_larger

__all__ = ["ToolAnswer", "answer", "capped", "failure", "interrupted", "jsonable", "not_begun"]

NOT_BEGUN = "stopped before it began"
INTERRUPTED = "interrupted, effect unknown: the process ended while the tool ran"

_JSON_SCALARS = frozenset({type(None), str, bool, int, float})


class ToolAnswer(Struct, frozen=True):
    """The one answer to a call, and how it came about."""

    response: FunctionResponse
    outcome: Outcome = "ok"
    seconds: float = 0.0
    attempts: int = 1
    cached: bool = False
    effect_unknown: bool = False
    crashed: bool = False
    """The tool raised an unexpected exception: the log has the traceback."""

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def failed(self) -> bool:
        """Whether the tool was tried, or asked for wrongly, without success."""
        return self.outcome in ("error", "invalid_arguments", "unknown_tool", "timeout", "denied")


def answer(call: FunctionCall, value: object) -> FunctionResponse:
    """The tool's value as a response: media go beside the JSON, not into it.

    Raises `TypeError`, `ValueError` or `RecursionError` for a value that cannot be written as JSON.
    """
    if isinstance(value, FunctionResponse):
        return msgspec.structs.replace(value, id=call.id, name=call.name)
    if isinstance(value, InlineData | FileData):
        return FunctionResponse(call.name, {"output": _label(value)}, call.id, (value,))
    media = _media_in(value)
    if not media:
        return FunctionResponse(call.name, {"output": jsonable(value)}, call.id)
    labelled = [
        _label(item) if isinstance(item, InlineData | FileData) else jsonable(item)
        for item in cast("Sequence[object]", value)
    ]
    return FunctionResponse(call.name, {"output": labelled}, call.id, media)


def failure(call: FunctionCall, text: str, outcome: Outcome) -> ToolAnswer:
    """An answer that tells the model what went wrong."""
    return ToolAnswer(FunctionResponse(call.name, {"error": text}, call.id), outcome)


def not_begun(call: FunctionCall) -> ToolAnswer:
    """The answer to a call that had not begun when its run ended."""
    return failure(call, NOT_BEGUN, "not_run")


def interrupted(call: FunctionCall, *, idempotent: bool = False) -> ToolAnswer:
    """The answer to a call that ran when its process ended, and does not run again."""
    text = "interrupted" if idempotent else INTERRUPTED
    cut = failure(call, text, "interrupted")
    return msgspec.structs.replace(cut, effect_unknown=not idempotent)


def capped(response: FunctionResponse, limit: int) -> FunctionResponse:
    """The model's copy: a long result keeps its head and its tail."""
    output = response.output
    if type(output) is str and len(output) <= limit:
        return response
    text = response.error if response.error is not None else _text(output)
    if len(text) <= limit:
        return response
    head, tail = limit - limit // 4, limit // 4
    left_out = f"\n[... {len(text) - head - tail} of {len(text)} characters left out ...]\n"
    shortened = text[:head] + left_out + text[len(text) - tail :]
    key = "error" if response.error is not None else "output"
    return msgspec.structs.replace(response, response={key: shortened})


def jsonable(value: object) -> Any:
    """The value in JSON's own types; what JSON has no word for becomes its `str`."""
    if type(value) in _JSON_SCALARS:
        return value
    if type(value) in (list, tuple, dict) and is_larger(value, STEP):
        return _in_steps(value)
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)


def _in_steps(value: object) -> Any:
    """The same for a large list or object: no call into C takes long."""
    if isinstance(value, dict):
        fields = cast("dict[object, object]", value)
        names = msgspec.to_builtins(dict.fromkeys(fields), str_keys=True, enc_hook=_plain)
        return dict(zip(names, map(jsonable, fields.values()), strict=True))
    return [jsonable(item) for item in cast("Sequence[object]", value)]


def _text(output: object) -> str:
    """The same as `FunctionResponse.text`, in short steps if it is large."""
    return output if isinstance(output, str) else encode_any_json(output).decode()


def _plain(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    return str(value)


def _media_in(value: object) -> tuple[InlineData | FileData, ...]:
    if not isinstance(value, list | tuple):
        return ()
    items = cast("Sequence[object]", value)
    return tuple(item for item in items if isinstance(item, InlineData | FileData))


def _label(part: InlineData | FileData) -> str:
    size = f", {len(part.data)} bytes" if isinstance(part, InlineData) else ""
    return f"[{part.mime_type or 'file'}{size}]"
