"""Calls that a model writes as text, although the page supports function calling. Pure.

The page then shows `Request function call: name` with parameters, or JSON with a call: an object
with `function_call`, `functionCall`, `function_calls`, `tool_calls`, or a function's `name` and
arguments, alone, in a list, or in a code block. JSON counts only if it begins a line and names a
function of the request.
"""

import json
import re
from typing import Any

from windlass.content import FunctionCall, new_call_id
from windlass.jsontext import compact_json
from windlass.wires.fields import JsonObject, as_list, as_object, as_text

MARKER = "Request function call:"
_HEAD = re.compile(
    r"\**Request function call:\**\s*`?(?P<name>[\w.:-]+)`?\s*(?:\**Parameters:\**\s*)?"
    r"(?:```(?:json)?\s*)?"
)
_QUOTE = "<ctrl46>"
_NAMESPACE = "default_api"
_START = re.compile(
    r"(?P<marker>\**Request function call:)"
    r"|^[ \t]*(?P<fence>(`{3,}|~{3,})(?:json|tool_code|tool_call|function_call)?[ \t]*\n)"
    r"|^[ \t]*(?P<json>[\[{])",
    re.MULTILINE,
)
_MAYBE_FENCE = re.compile(r"(?:^|\n)[ \t]*(?:[`~][`~a-z_ \t]{0,24})?\Z")
_SINGLE = ("function_call", "functionCall")
_SEVERAL = ("function_calls", "functionCalls", "tool_calls", "toolCalls")
_ARGUMENTS = ("args", "arguments", "parameters")
_DECODER = json.JSONDecoder(strict=False)


def clean_name(name: str, known: tuple[str, ...]) -> str:
    """The declared name: without `default_api:`, and completed if the page truncated it."""
    name = name.strip()
    for mark in (":", "."):
        name = name.removeprefix(f"{_NAMESPACE}{mark}")
    if name in known:
        return name
    cut = re.sub(r"(…|\.\.\.)$", "", name)
    whole = [each for each in known if cut and each.startswith(cut)]
    return whole[0] if len(whole) == 1 else name


def clean_arguments(text: str) -> str:
    """The argument text with quotes instead of `<ctrl46>`."""
    return text.strip().replace(_QUOTE, '"')


class WrittenCalls:
    """Separates streamed text from the calls that are written in it.

    Text that may become a call is held back until it is known. The whole is feed + finish.
    """

    def __init__(self, known: tuple[str, ...]) -> None:
        self._known = known
        self._held = ""
        self._calls: list[FunctionCall] = []
        self._at_line_start = True
        """Whether the held text begins a line."""

    def feed(self, text: str) -> str:
        """The text that is certainly not part of a call."""
        self._held += text
        if not self._known:
            return self._released(len(self._held))
        return self._scanned(is_whole=False)

    def finish(self) -> tuple[str, list[FunctionCall]]:
        """The rest of the text, and the calls."""
        said = self._scanned(is_whole=True) if self._known else self._released(len(self._held))
        calls, self._calls = self._calls, []
        return (said if said.strip() or not calls else ""), calls

    def _scanned(self, *, is_whole: bool) -> str:
        said: list[str] = []
        at = 0
        while (start := _START.search(self._held, at)) is not None:
            if start["marker"] is None and start.start() == 0 and not self._at_line_start:
                at = start.end()
                continue
            said.append(self._released(start.start()))
            at = 0
            if start["marker"] is not None:
                if not is_whole:
                    return "".join(said)  # parameters may follow
                said.append(self._from_words())
                continue
            end, values = self._json_here(start["fence"], is_whole)
            if end is None:
                return "".join(said)
            if calls := self._calls_in(values):
                self._calls += calls
                self._held, self._at_line_start = self._held[end:].lstrip(" \t\n"), True
            else:
                at = end  # what was read is text; it is released with what follows
        keep = 0 if is_whole else _held_back(self._held, at, line_start=self._at_line_start)
        said.append(self._released(len(self._held) - keep))
        return "".join(said)

    def _released(self, length: int) -> str:
        text, self._held = self._held[:length], self._held[length:]
        if text:
            self._at_line_start = text.endswith("\n")
        return text

    def _json_here(self, fence: str | None, is_whole: bool) -> tuple[int | None, Any]:
        """Where the JSON or the code block at the start ends, and its value.

        The end is None if it is incomplete; the value is None if it is no JSON.
        """
        text = self._held
        if fence is not None:
            ticks = fence[0] * 3
            close = re.compile(rf"^[ \t]*{re.escape(ticks)}+[ \t]*$", re.MULTILINE)
            body_at = text.index(fence) + len(fence)
            closed = close.search(text, body_at)
            if closed is None and not is_whole:
                return None, None
            body = text[body_at : closed.start() if closed else len(text)]
            return (closed.end() if closed else len(text)), _json_of(clean_arguments(body))
        at = len(text) - len(text.lstrip(" \t"))
        if _QUOTE in text:
            if not is_whole:
                return None, None
            value = _json_of(clean_arguments(text))
            return (len(text) if value is not None else at + 1), value
        try:
            value, end = _DECODER.raw_decode(text, at)
        except RecursionError:
            return len(text), None
        except json.JSONDecodeError as problem:
            is_cut = problem.pos >= len(text.rstrip()) or problem.msg.startswith("Unterminated")
            is_cut = is_cut or _is_cut(text[problem.pos :])
            return (at + 1, None) if is_whole or not is_cut else (None, None)
        return end, value

    def _calls_in(self, value: Any) -> list[FunctionCall]:
        items = as_list(value)
        calls: list[FunctionCall] = []
        for item in items if items is not None else [value]:
            found = self._calls_of(as_object(item))
            if not found:
                return []  # a list with something else is data
            calls += found
        return calls

    def _calls_of(self, fields: JsonObject | None) -> list[FunctionCall]:
        if fields is None:
            return []
        for key in _SINGLE:
            if (single := as_object(fields.get(key))) is not None:
                return [call] if (call := self._call_of(single)) else []
        for key in _SEVERAL:
            if (several := as_list(fields.get(key))) is not None:
                calls = [self._call_of(as_object(item)) for item in several]
                return [call for call in calls if call] if all(calls) else []
        has_arguments = any(key in fields for key in _ARGUMENTS)
        return [call] if has_arguments and (call := self._call_of(fields)) else []

    def _call_of(self, item: JsonObject | None) -> FunctionCall | None:
        item = as_object((item or {}).get("function")) or item
        name = clean_name(as_text((item or {}).get("name")) or "", self._known)
        if item is None or name not in self._known:
            return None
        arguments: Any = next((item[key] for key in _ARGUMENTS if key in item), None) or {}
        json_text = arguments if isinstance(arguments, str) else compact_json(arguments)
        return FunctionCall(name, json_text, new_call_id())

    def _from_words(self) -> str:
        """Reads the calls in words to the end of the text; returns what is said beside them."""
        said: list[str] = []
        text, self._held = self._held.replace(_QUOTE, '"'), ""
        at = 0
        while (head := _HEAD.search(text, at)) is not None:
            name = clean_name(head["name"], self._known)
            if name not in self._known:
                said.append(text[at : head.end()])
                at = head.end()
                continue
            said.append(text[at : head.start()])
            arguments, at = _object_at(text, head.end())
            self._calls.append(FunctionCall(name, arguments, new_call_id()))
        said.append(text[at:])
        return "".join(said)


def _object_at(text: str, at: int) -> tuple[str, int]:
    """The JSON object at this position and where it ends; `{}` if there is none."""
    try:
        _, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        # Invalid JSON: the model gets an error, and the user does not see it.
        return (text[at:].strip() or "{}", len(text)) if text[at : at + 1] == "{" else ("{}", at)
    arguments = text[at:end]
    fence = re.match(r"\s*```", text[end:])
    return arguments, end + (fence.end() if fence else 0)


def _json_of(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _is_cut(text: str) -> bool:
    """Whether the text is the beginning of a word of JSON, or of a quote of the page."""
    return any(word.startswith(text) for word in ("true", "false", "null", _QUOTE)) and bool(text)


def _held_back(text: str, at: int, *, line_start: bool) -> int:
    """How many of the last characters may be the start of a call."""
    if not text.strip() and line_start:
        return len(text)
    for length in range(min(len(text), len(MARKER) + 1), 0, -1):
        end = text[-length:]
        if MARKER.startswith(end.lstrip("*")):
            return length
    maybe = _MAYBE_FENCE.search(text, at)
    if maybe is None or (maybe.start() == 0 and text[:1] != "\n" and not line_start):
        return 0
    return len(text) - maybe.start()
