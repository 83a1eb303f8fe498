"""The reply of a run, its rounds, and the answers to its calls. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Generic, cast

import msgspec
from msgspec import Struct
from typing_extensions import TypeVar

from windlass.content import (
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Message,
    Text,
    Usage,
    media_label,
    paired,
    text_once,
)
from windlass.errors import ConfigError, OutputInvalid
from windlass.events import FinishReason, Outcome, StopReason
from windlass.jsontext import STEP, is_larger
from windlass.tool import Tool

OutputT = TypeVar("OutputT", default=Any, covariant=True)
"""The type of a reply's output: None for a run without `output=`."""

NOT_BEGUN = "stopped before it began"
INTERRUPTED = "interrupted, effect unknown: the process ended while the tool ran"

_JSON_SCALARS = frozenset({type(None), str, bool, int, float})


class ToolAnswer(Struct, frozen=True):
    """The answer to a call: the response, and how the call ended."""

    response: FunctionResponse
    outcome: Outcome = "ok"
    seconds: float = 0.0
    attempts: int = 1
    cached: bool = False
    effect_unknown: bool = False
    crashed: bool = False
    """The tool raised an unexpected exception; the traceback is logged."""

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def failed(self) -> bool:
        """Whether the call failed, was invalid or was denied."""
        return self.outcome in ("error", "invalid_arguments", "unknown_tool", "timeout", "denied")


def answer(call: FunctionCall, value: object, *, is_large: bool = False) -> FunctionResponse:
    """Returns the tool's value as a response, with media as separate parts.

    A value that `is_large` is converted in short steps, so that no call into C is long.

    Raises `TypeError` or `ValueError` for a value that JSON cannot represent.
    """
    if isinstance(value, FunctionResponse):
        return msgspec.structs.replace(value, id=call.id, name=call.name)
    if isinstance(value, InlineData | FileData):
        return FunctionResponse(call.name, {"output": media_label(value)}, call.id, (value,))
    convert = _jsonable_in_steps if is_large else _jsonable
    media = _media_in(value)
    if not media:
        return FunctionResponse(call.name, {"output": _output(value, convert)}, call.id)
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        labelled: object = {name: _output(item, convert) for name, item in fields.items()}
    else:
        labelled = [_output(item, convert) for item in cast("Sequence[object]", value)]
    return FunctionResponse(call.name, {"output": convert(labelled)}, call.id, media)


def failure(call: FunctionCall, text: str, outcome: Outcome) -> ToolAnswer:
    """Returns an answer with an error text for the model."""
    return ToolAnswer(FunctionResponse(call.name, {"error": text}, call.id), outcome)


def not_begun(call: FunctionCall) -> ToolAnswer:
    """Returns the answer to a call that had not started when its run ended."""
    return failure(call, NOT_BEGUN, "not_run")


def interrupted(call: FunctionCall, *, idempotent: bool = False) -> ToolAnswer:
    """Returns the answer to a call that was running when its process exited."""
    text = "interrupted" if idempotent else INTERRUPTED
    cut = failure(call, text, "interrupted")
    return msgspec.structs.replace(cut, effect_unknown=not idempotent)


def capped(response: FunctionResponse, limit: int) -> FunctionResponse:
    """Returns the model's copy: a long result without its middle."""
    output = response.output
    if type(output) is str and len(output) <= limit:
        return response
    text = response.error if response.error is not None else text_once(response)
    if len(text) <= limit:
        return response
    head, tail = limit - limit // 4, limit // 4
    left_out = f"\n[... {len(text) - head - tail} of {len(text)} characters left out ...]\n"
    shortened = text[:head] + left_out + text[len(text) - tail :]
    key = "error" if response.error is not None else "output"
    return msgspec.structs.replace(response, response={key: shortened})


def _jsonable(value: object) -> Any:
    """Returns the value in JSON's types; other types become their `str`."""
    if type(value) in _JSON_SCALARS:
        return value
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)


def _jsonable_in_steps(value: object) -> Any:
    """Does the same as `_jsonable`, without one long call into C for a large list or object."""
    if type(value) not in (list, tuple, dict) or not is_larger(value, STEP):
        return _jsonable(value)
    if isinstance(value, dict):
        fields = cast("dict[object, object]", value)
        names = msgspec.to_builtins(dict.fromkeys(fields), str_keys=True, enc_hook=_plain)
        return dict(zip(names, map(_jsonable_in_steps, fields.values()), strict=True))
    return [_jsonable_in_steps(item) for item in cast("Sequence[object]", value)]


def _plain(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    return str(value)


def _media_in(value: object) -> tuple[InlineData | FileData, ...]:
    """The media in a list, or in the values of an object."""
    if isinstance(value, dict):
        value = tuple(cast("dict[object, object]", value).values())
    if not isinstance(value, list | tuple):
        return ()
    items = cast("Sequence[object]", value)
    return tuple(item for item in items if isinstance(item, InlineData | FileData))


def _output(value: object, convert: Callable[[object], Any]) -> Any:
    """The value in JSON's types: a text part as its text, media as a label."""
    if isinstance(value, Text):
        return value.text
    if isinstance(value, InlineData | FileData):
        return media_label(value)
    try:
        return convert(value)
    except RecursionError:  # its traceback has thousands of lines
        raise ValueError("the result contains itself, or is nested too deeply") from None


_MAX_REPR_CHARS = 60
"""The maximum number of characters of the text in a reply's `repr`."""


class Calls(tuple[FunctionCall, ...]):  # noqa: SLOT001 - it carries an attribute
    """Calls with the tools that were offered, so that `client.execute` can run them."""

    tools: Mapping[str, Tool]

    @classmethod
    def of(cls, calls: Iterable[FunctionCall], tools: Mapping[str, Tool]) -> "Calls":
        made = cls(calls)
        made.tools = tools
        return made


class RoundRecord(Struct, frozen=True):
    """One request to the model, and the answers to its calls."""

    number: int
    message: Message
    finish: FinishReason
    usage: Usage
    answers: tuple[ToolAnswer, ...] = ()
    shown: tuple[FunctionResponse, ...] = ()
    """The model's copies of the answers: long ones without their middle."""
    about: dict[str, Any] = {}
    """Facts about the whole answer, such as `system_fingerprint`."""
    logprobs: dict[str, Any] | None = None
    """The log probabilities of its text, if requested."""
    rejected: bool = False
    """Whether its answer was not a valid value, so that the model was asked again."""


class Reply(Struct, Generic[OutputT], frozen=True):
    """The result of a run: the answer, and the conversation that led to it."""

    text: str
    messages: tuple[Message, ...]
    """The conversation, ready for the next request: the prompt, all turns and all results."""
    rounds: tuple[RoundRecord, ...]
    usage: Usage
    """The sum of the whole run; each round has its own usage."""
    stop_reason: StopReason
    calls: Calls
    """Every call that the model made, in order."""
    results: tuple[FunctionResponse, ...]
    """Every result, in call order and in full."""
    pending: Calls
    """The calls that the caller must answer."""
    run_id: str = ""
    model: str = ""
    max_result_chars: int = 50_000
    typed: Any = None
    """The value that `output` returns."""
    has_output: bool = True
    """False for a run with `output=` that ended without a valid answer."""

    @property
    def output(self) -> OutputT:
        """The validated value of a run with `output=`; None without it.

        Raises `OutputInvalid` if the run ended without an answer: look at `stop_reason` first.
        """
        if not self.has_output:
            raise OutputInvalid(
                f"the run has no output: it ended with stop_reason {self.stop_reason!r}",
                text=self.text,
            )
        return self.typed

    def __repr__(self) -> str:
        """Returns a short text, because messages may contain whole files."""
        start = (
            self.text
            if len(self.text) <= _MAX_REPR_CHARS
            else f"{self.text[: _MAX_REPR_CHARS - 3]}..."
        )
        return (
            f"Reply({start!r}, stop_reason={self.stop_reason!r},"
            f" tokens={self.usage.total_tokens}, rounds={len(self.rounds)})"
        )

    def without_rejected(self) -> "Reply[OutputT]":
        """Returns the reply without the rounds whose answers were rejected."""
        if not any(record.rejected for record in self.rounds):
            return self
        kept = (record for record in self.rounds if not record.rejected or record.answers)
        return msgspec.structs.replace(self, rounds=tuple(kept))

    @property
    def parts(self) -> tuple[InlineData | FileData, ...]:
        """The images, audio and files that the model made, in order.

        Those of tools are in the `parts` of their `results`.
        """
        return tuple(
            part
            for record in self.rounds
            for part in record.message.parts
            if isinstance(part, InlineData | FileData)
        )

    @property
    def cost(self) -> Decimal | None:
        """The exact cost of the whole run; None if the price of its model is not known."""
        return self.usage.cost

    @property
    def mode(self) -> str | None:
        """The function calling mode, `native` or `emulated`; None if no turn is complete."""
        marks = [record.message.extra.get("windlass", {}).get("mode") for record in self.rounds]
        if marked := next((mode for mode in reversed(marks) if mode), None):
            return marked
        # Every complete turn of an emulated model is marked; an interrupted one is `other`.
        return "native" if any(record.finish != "other" for record in self.rounds) else None

    @property
    def thoughts(self) -> str:
        return "".join(record.message.thoughts for record in self.rounds)

    def follow_up(
        self, results: Iterable[FunctionResponse] | Mapping[str, object] = ()
    ) -> tuple[Message, ...]:
        """Returns the conversation with results for the pending calls, as the next prompt.

        `results` are responses, or values by call id. Raises `ConfigError` for a call without a
        result, and for a result without a call.
        """
        if not self.pending:
            return self.messages
        limit = self.max_result_chars
        given = {
            call_id: capped(response, limit)
            for call_id, response in _by_id(results, self.pending).items()
        }
        if self.rounds:
            given.update({response.id: response for response in self.rounds[-1].shown})
        turn = self.messages[-1].calls
        if missing := [call.id for call in turn if call.id not in given]:
            raise ConfigError(f"missing results for the calls: {', '.join(missing)}")
        return (*self.messages, Message.tool(given[call.id] for call in turn))


def _by_id(
    results: Iterable[FunctionResponse] | Mapping[str, object], pending: Sequence[FunctionCall]
) -> dict[str, FunctionResponse]:
    names = {call.id: call.name for call in pending}
    if isinstance(results, Mapping):
        values = cast("Mapping[str, object]", results)
        given = {
            call_id: FunctionResponse(names.get(call_id, ""), {"output": value}, call_id)
            for call_id, value in values.items()
        }
    else:
        # Without ids, results belong to the calls of the same name, in order.
        _, answered = paired([Message("assistant", tuple(pending)), Message.tool(results)])
        given = {response.id or response.name: response for response in answered.responses}
    if unknown := given.keys() - names.keys():
        raise ConfigError(f"results without a pending call: {', '.join(sorted(unknown))}")
    return given
