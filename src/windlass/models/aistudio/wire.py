"""Converts a request to actions on the page. Pure.

If the open chat equals the beginning of the request's history, the request continues it: tool
results go into the fields of the calls, a question into the prompt. Any other history is written as
text at the start of a new chat.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from windlass.content import (
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GoogleSearch,
    InlineData,
    Message,
    Opaque,
    Role,
    Thought,
    without_media,
)
from windlass.errors import ModelError, NativeModeUnavailable
from windlass.jsontext import compact_json
from windlass.model import ModelRequest, ToolChoice

_ROLES: dict[type, tuple[Role, ...]] = {
    FunctionCall: ("assistant",),
    FunctionResponse: ("tool",),
    Thought: ("assistant",),
    InlineData: ("user",),
}
"""The roles of messages that may have a part of this type; other types are allowed everywhere."""


class SaidTurn(Struct, frozen=True):
    """A message as the page shows it, without ids, thoughts and signatures."""

    role: str
    text: str
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    """The digests of its images."""


class PagePrompt(Struct, frozen=True):
    """A text for the prompt field; with `new_chat`, in an empty chat."""

    text: str
    new_chat: bool
    system: str = ""
    """The system instructions of a new chat."""
    images: tuple[InlineData, ...] = ()
    """The images that the page uploads with the prompt."""


class CallAnswers(Struct, frozen=True):
    """The results of the pending calls, in order: one text for each response field."""

    texts: tuple[str, ...]


Plan: TypeAlias = PagePrompt | CallAnswers


def said_turns(messages: Sequence[Message]) -> tuple[SaidTurn, ...]:
    """The conversation in a comparable form."""
    return tuple(
        SaidTurn(
            message.role,
            message.text.strip(),
            tuple(_call_key(call) for call in message.calls),
            tuple(without_media(response).text for response in message.responses),
            tuple(hashlib.sha256(image.data).hexdigest() for image in _images([message])),
        )
        for message in messages
    )


def plan_of(messages: Sequence[Message], live: Sequence[SaidTurn] | None) -> Plan:
    """What to do on a page whose chat contains `live`; None means a page without a chat."""
    if live and said_turns(messages[: len(live)]) == tuple(live):
        last, rest = messages[len(live) - 1], messages[len(live) :]
        if answers := _answers(last, rest):
            return answers
        if rest and not last.calls and all(message.role == "user" for message in rest):
            text = "\n\n".join(message.text for message in rest) or _ONLY_IMAGES
            return PagePrompt(text, new_chat=False, images=_images(rest))
    system = "\n\n".join(message.text for message in messages if message.role == "system")
    conversation = [message for message in messages if message.role != "system"]
    return PagePrompt(
        _rendered(conversation), new_chat=True, system=system, images=_images(conversation)
    )


def _images(messages: Sequence[Message]) -> tuple[InlineData, ...]:
    parts = (part for message in messages for part in message.parts)
    return tuple(part for part in parts if isinstance(part, InlineData))


def _answers(asked: Message, rest: Sequence[Message]) -> CallAnswers | None:
    """The results of the last turn's calls, if the request has all of them and nothing else."""
    if not asked.calls or not rest or any(message.role != "tool" for message in rest):
        return None
    if any(len(message.responses) < len(message.parts) for message in rest):
        return None  # the fields cannot contain other parts
    responses = [response for message in rest for response in message.responses]
    if len(responses) != len(asked.calls):
        return None
    by_id = {response.id: response for response in responses}
    if len(by_id) == len(responses) and all(call.id in by_id for call in asked.calls):
        responses = [by_id[call.id] for call in asked.calls]
    return CallAnswers(tuple(_answer_text(response) for response in responses))


def _answer_text(response: FunctionResponse) -> str:
    """The result as JSON, because the field is a single line."""
    response = without_media(response)
    fields = {"output": response.output} if response.error is None else {"error": response.error}
    return compact_json(fields)


def _call_key(call: FunctionCall) -> str:
    arguments = call.arguments
    return f"{call.name} {arguments if isinstance(arguments, str) else _canonical(arguments)}"


def _canonical(value: Any) -> str:
    match value:
        case dict():
            items = sorted((str(key), _canonical(item)) for key, item in value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            return "{" + ",".join(f"{compact_json(key)}:{item}" for key, item in items) + "}"
        case list():
            return "[" + ",".join(map(_canonical, value)) + "]"  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return compact_json(value)


_ONLY_IMAGES = "See the attached images."
"""The page does not run a prompt without words."""
_SO_FAR = "This is our conversation so far, one JSON object to a line:"
_GO_ON = {
    "user": "Now to my last message, which is what I want an answer to:",
    "tool": "Go on from there: the results of the functions that you called are in the last lines.",
    "assistant": "Go on from there.",
}


def _rendered(said: Sequence[Message]) -> str:
    """The history as a prompt. Earlier messages are JSON, so that none can imitate another."""
    last = said[-1] if said else Message.user("")
    earlier = said[:-1] if last.role == "user" else said
    pieces: list[str] = []
    if earlier:
        lines: list[str] = []
        for number, message in enumerate(earlier):
            lines.append(_line(message, len(_images(earlier[:number]))))
        pieces += [_SO_FAR, "\n".join(lines), _GO_ON[last.role]]
    if last.role == "user":
        pieces.append(last.text or (_ONLY_IMAGES if _images([last]) else ""))
    return "\n\n".join(pieces)


def _line(message: Message, images_before: int) -> str:
    fields: dict[str, Any] = {"role": "model" if message.role == "assistant" else message.role}
    if message.text:
        fields["text"] = message.text
    if images := _images([message]):
        numbers = range(images_before + 1, images_before + len(images) + 1)
        fields["images"] = [f"attached image {number}" for number in numbers]
    if message.calls:
        fields["calls"] = [
            {"name": call.name, "arguments": call.arguments} for call in message.calls
        ]
    if message.responses:
        fields["results"] = [
            {"name": response.name, "response": without_media(response).response}
            for response in message.responses
        ]
    return compact_json(fields)


def offered_functions(request: ModelRequest) -> tuple[FunctionDeclaration, ...]:
    """The functions for the editor: all, only the required ones, or none."""
    choice = request.tool_choice
    if choice.mode == "none":
        return ()
    functions = [tool for tool in request.tools if isinstance(tool, FunctionDeclaration)]
    if choice.mode == "required" and choice.names:
        return tuple(tool for tool in functions if tool.name in choice.names)
    return tuple(functions)


def has_search(request: ModelRequest) -> bool:
    """Whether the request needs the page's Google Search."""
    return any(isinstance(tool, GoogleSearch) for tool in request.tools)


def reminder(choice: ToolChoice, functions: Sequence[FunctionDeclaration]) -> str:
    """The prompt for a model that answered in text although a call was required."""
    names = choice.names or tuple(function.name for function in functions)
    which = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    return f"Do not answer in words yet: call {which} first."


def check_request(request: ModelRequest) -> None:
    """Raises `ModelError` (400) for a request that the page does not support.

    `NativeModeUnavailable` if the page supports it in emulated mode.
    """
    if request.settings.response_schema is not None:
        raise _refused("response_schema is not supported: the page has no structured output here")
    for message in request.messages:
        for part in message.parts:
            if message.role not in _ROLES.get(type(part), (message.role,)):
                raise _refused(
                    f"a {type(part).__name__} is not allowed in a message of the role"
                    f" {message.role!r}"
                )
            if isinstance(part, InlineData) and not part.mime_type.startswith("image/"):
                raise _refused(
                    f"only text and images are supported, not {part.mime_type}: leave it out"
                )
            if isinstance(part, FileData):
                raise _refused("an image at an address is not supported: send the image itself")
            if isinstance(part, Opaque):
                raise _refused("only text and images are supported: leave out other content")
    if has_search(request) and offered_functions(request):
        reason = "the page cannot use Google Search and functions together"
        raise NativeModeUnavailable(reason, ModelError(reason, status=400))


def _refused(reason: str) -> ModelError:
    return ModelError(f"aistudio/: {reason}", status=400, code="unsupported")
