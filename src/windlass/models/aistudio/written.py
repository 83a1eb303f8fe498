"""Calls that the model wrote as text although the page can call functions. Pure.

The page then shows `Request function call: name` with parameters, or a JSON object with a
`function_call` in it, where its own widget should be.
"""

import json
import re
from typing import Any

from windlass.content import FunctionCall, new_call_id
from windlass.jsontext import compact_json
from windlass.wires.fields import JsonObject, as_list, as_object, as_text

__all__ = ["WrittenCalls", "clean_arguments", "clean_name"]

MARKER = "Request function call:"
_HEAD = re.compile(
    r"\**Request function call:\**\s*`?(?P<name>[\w.:-]+)`?\s*(?:\**Parameters:\**\s*)?"
    r"(?:```(?:json)?\s*)?"
)
_QUOTE = "<ctrl46>"
_SPACE_OF_NAMES = "default_api"


def clean_name(name: str, known: tuple[str, ...]) -> str:
    """The name as it was declared: without `default_api:`, and whole where the page cut it off."""
    name = name.strip()
    for mark in (":", "."):
        name = name.removeprefix(f"{_SPACE_OF_NAMES}{mark}")
    if name in known:
        return name
    cut = re.sub(r"(…|\.\.\.)$", "", name)
    whole = [each for each in known if cut and each.startswith(cut)]
    return whole[0] if len(whole) == 1 else name


def clean_arguments(text: str) -> str:
    """The argument text with the quotes that the page writes as `<ctrl46>`."""
    return text.strip().replace(_QUOTE, '"')


class WrittenCalls:
    """Text as it grows, without the calls that are written in it.

    What may become a call is held back until it is one or cannot be. The whole is feed + finish.
    """

    def __init__(self, known: tuple[str, ...]) -> None:
        self._known = known
        self._held = ""
        self._begun = False
        """Whether a call has begun: then all that follows waits for the end."""
        self._said = False

    def feed(self, text: str) -> str:
        """The text that is certainly no call."""
        self._held += text
        if not self._known:
            return self._released(len(self._held))
        if self._begun:
            return ""
        start = self._start()
        if start is not None:
            self._begun = True
            return self._released(start)
        return self._released(len(self._held) - _held_back(self._held))

    def finish(self) -> tuple[str, list[FunctionCall]]:
        """The rest of the text, and the calls."""
        text, self._held = self._held, ""
        if not self._begun:
            return text, []
        found = self._from_json(text) or self._from_words(text)
        return found or (text, [])

    def _start(self) -> int | None:
        if not self._said and self._held.lstrip().startswith("{"):
            return 0
        at = self._held.find(MARKER)
        if at < 0:
            return None
        while at and self._held[at - 1] == "*":
            at -= 1
        return at

    def _released(self, length: int) -> str:
        text, self._held = self._held[:length], self._held[length:]
        self._said = self._said or bool(text.strip())
        return text

    def _from_json(self, text: str) -> tuple[str, list[FunctionCall]] | None:
        fields = as_object(_json_of(clean_arguments(text)))
        if fields is None:
            return None
        single = as_object(fields.get("function_call")) or as_object(fields.get("functionCall"))
        several = [single] if single else as_list(fields.get("function_calls")) or []
        calls = [call for item in several if (call := self._call_of(as_object(item)))]
        return ("", calls) if calls else None

    def _call_of(self, item: JsonObject | None) -> FunctionCall | None:
        name = clean_name(as_text((item or {}).get("name")) or "", self._known)
        if item is None or name not in self._known:
            return None
        arguments = item.get("args", item.get("arguments", {}))
        json_text = arguments if isinstance(arguments, str) else compact_json(arguments)
        return FunctionCall(name, json_text, new_call_id())

    def _from_words(self, text: str) -> tuple[str, list[FunctionCall]] | None:
        said: list[str] = []
        calls: list[FunctionCall] = []
        text = text.replace(_QUOTE, '"')
        at = 0
        while (head := _HEAD.search(text, at)) is not None:
            name = clean_name(head["name"], self._known)
            if name not in self._known:
                said.append(text[at : head.end()])
                at = head.end()
                continue
            said.append(text[at : head.start()])
            arguments, at = _object_at(text, head.end())
            calls.append(FunctionCall(name, arguments, new_call_id()))
        said.append(text[at:])
        rest = "".join(said)
        return (rest if rest.strip() else "", calls) if calls else None


def _object_at(text: str, at: int) -> tuple[str, int]:
    """The JSON object that begins there, however deep, and where it ends; `{}` if there is none."""
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(text, at)
    except (ValueError, RecursionError):
        # It cannot be read: the model is told so, and nothing of it is said to the user.
        return (text[at:].strip() or "{}", len(text)) if text[at : at + 1] == "{" else ("{}", at)
    arguments = text[at:end]
    fence = re.match(r"\s*```", text[end:])
    return arguments, end + (fence.end() if fence else 0)


def _json_of(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _held_back(text: str) -> int:
    """How many of the last characters may be the beginning of a marker."""
    if not text.strip():
        return len(text)
    for length in range(min(len(text), len(MARKER) + 1), 0, -1):
        end = text[-length:]
        if MARKER.startswith(end.lstrip("*")):
            return length
    return 0
