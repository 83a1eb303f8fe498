"""Parts, messages and declarations: frozen values that convert to JSON and back without loss.

A `Part` is a member of the `AnyPart` union. Fields of a provider that Windlass does not know are
stored in `extra` under the provider's name, and are sent back to that provider unchanged.
"""

import decimal
import os
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec
from msgspec import Struct

from windlass.errors import ConfigError
from windlass.jsontext import LARGE, compact_json, encode_any_json, is_larger

__all__ = [
    "AnyPart",
    "Declaration",
    "FileData",
    "FunctionCall",
    "FunctionDeclaration",
    "FunctionResponse",
    "GoogleSearch",
    "InlineData",
    "Message",
    "Opaque",
    "ROLE_ALIASES",
    "Part",
    "PrivateText",
    "ProviderTool",
    "Role",
    "Schema",
    "Text",
    "Thought",
    "Usage",
    "compact_json",
    "encoded_once",
    "guessed_type",
    "image_type",
    "is_own_call_id",
    "media_label",
    "new_call_id",
    "paired",
    "size_of_part",
    "text_once",
    "without_media",
]

Role = Literal["system", "user", "assistant", "tool"]
ROLE_ALIASES: dict[str, Role] = {"model": "assistant", "function": "tool", "developer": "system"}
"""The names of roles in other systems. `Message` accepts them, too."""
Schema: TypeAlias = dict[str, Any]
"""A JSON Schema."""


class PrivateText(str):
    """Text in a log line that may contain private content. A gateway can omit it from its log.

    `instead` replaces it in such a log.
    """

    __slots__ = ("instead",)
    instead: str | None

    def __new__(cls, text: object, instead: str | None = None) -> "PrivateText":
        made = super().__new__(cls, text)
        made.instead = instead
        return made


_OWN_CALL_ID = re.compile(r"call_[0-9a-f]{24}")


def new_call_id() -> str:
    """Returns a new id, for a call without an id from its provider."""
    return f"call_{secrets.token_hex(12)}"


def is_own_call_id(call_id: str) -> bool:
    """Whether `new_call_id` made the id, so that the provider does not know it."""
    return _OWN_CALL_ID.fullmatch(call_id) is not None


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", gc=False):
    """One piece of a message. The static methods create parts of each kind."""

    extra: dict[str, Any] = {}

    @staticmethod
    def from_text(text: str) -> "Text":
        """Creates a part with text."""
        return Text(text)

    @staticmethod
    def from_thought(text: str) -> "Thought":
        """Creates a part with text of the model's reasoning."""
        return Thought(text)

    @staticmethod
    def from_bytes(data: bytes, mime_type: str) -> "InlineData":
        """Creates a part with an image or other media, from its bytes."""
        return InlineData(data, mime_type)

    @staticmethod
    def from_file(
        path: "str | os.PathLike[str]", mime_type: str | None = None
    ) -> "Text | InlineData":
        """Reads a file: a text file as text, an image or other media as bytes.

        The type is guessed from the name. Raises `ConfigError` for a file that cannot be read, and
        for one that is neither text nor of a known type.
        """
        return _file_part(Path(path), mime_type)

    @staticmethod
    def from_uri(uri: str, mime_type: str | None = None) -> "FileData":
        """Creates a part with an image or other media, by its address."""
        return FileData(uri, mime_type)

    @staticmethod
    def from_function_call(
        name: str, args: dict[str, Any] | None = None, *, id: str | None = None
    ) -> "FunctionCall":
        """Creates a call of a tool, with a new id if `id` is None."""
        return FunctionCall(name, compact_json(args or {}), id or new_call_id())

    @staticmethod
    def from_function_response(
        name: str, response: dict[str, Any], *, id: str = ""
    ) -> "FunctionResponse":
        """Creates the result of a call."""
        return FunctionResponse(name, response, id)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; `from_dict` is the inverse."""
        return _lifted(msgspec.to_builtins(self))

    @staticmethod
    def from_dict(value: dict[str, Any]) -> "AnyPart":
        """Reads the output of `to_dict`. Unknown fields go to `extra`.

        Raises `msgspec.ValidationError`, which names the field, for invalid values.
        """
        return msgspec.convert(_lowered_part(value), AnyPart)


class Text(Part, frozen=True, omit_defaults=True, tag="text"):
    text: str
    signature: str | None = None


class Thought(Part, frozen=True, omit_defaults=True, tag="thought"):
    """The model's reasoning, which is not part of its answer."""

    text: str
    signature: str | None = None


class InlineData(Part, frozen=True, omit_defaults=True, tag="inline_data"):
    """An image or other media, as bytes."""

    data: bytes
    mime_type: str

    def save(self, path: "str | os.PathLike[str]") -> Path:
        """Writes the bytes to a file, and returns its path.

        A name without a suffix gets that of the type: `chart` becomes `chart.png`. Replaces an
        existing file, and creates missing folders.
        """
        file = Path(path)
        if not file.suffix:
            file = file.with_name(f"{file.name}{_suffix(self.mime_type)}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.data)
        return file


class FileData(Part, frozen=True, omit_defaults=True, tag="file_data"):
    """Media that the provider fetches from a URI."""

    uri: str
    mime_type: str | None = None

    def save(self, path: "str | os.PathLike[str]") -> Path:
        """Raises `ConfigError`: only the address is known, and nothing is downloaded."""
        raise ConfigError(f"cannot save {path}: download the file from {self.uri}")


class FunctionCall(Part, frozen=True, omit_defaults=True, tag="function_call"):
    """A call by the model. The arguments stay the JSON text that the model wrote."""

    name: str
    json: str = "{}"
    id: str = ""
    signature: str | None = None

    @property
    def arguments(self) -> dict[str, Any] | str:
        """The arguments as a dict, or the raw text if it is not a JSON object."""
        value, error = _json_object(self.json)
        return self.json if error else value

    @property
    def error(self) -> str | None:
        """Why the arguments are not a JSON object; None if they are."""
        return _json_object(self.json)[1]


class FunctionResponse(
    Part, frozen=True, omit_defaults=True, dict=True, gc=True, tag="function_response"
):
    """The result of a call: `{"output": value}`, `{"error": text}`, or any other object."""

    # `dict=True` gives each response a `__dict__`, for what is computed only once.
    name: str
    response: dict[str, Any]
    id: str = ""
    parts: "tuple[InlineData | FileData, ...]" = ()

    @property
    def output(self) -> Any:
        """The tool's return value; None for an error."""
        if len(self.response) == 1 and "output" in self.response:
            return self.response["output"]
        return None if self.error is not None else self.response

    @property
    def error(self) -> str | None:
        """The error text that the model sees; None for a success."""
        error = self.response.get("error")
        return None if error is None or len(self.response) > 1 else str(error)

    @property
    def text(self) -> str:
        """The result as text: a string unchanged, an error and other values as compact JSON."""
        return _text_of(self, compact_json)


class Opaque(Part, frozen=True, omit_defaults=True, tag="opaque"):
    """A part of a kind that Windlass does not know, stored unchanged for its provider."""

    provider: str
    data: dict[str, Any]


AnyPart: TypeAlias = (
    Text | Thought | InlineData | FileData | FunctionCall | FunctionResponse | Opaque
)
_PART_TYPES: tuple[type[Part], ...] = (
    Text,
    Thought,
    InlineData,
    FileData,
    FunctionCall,
    FunctionResponse,
    Opaque,
)
_KNOWN_PARTS = frozenset[type[Any]](_PART_TYPES)


class Message(Struct, frozen=True, omit_defaults=True, dict=True):
    """One message of a conversation. The role `model` is read as `assistant`."""

    # `dict=True` gives each message a `__dict__`, for what is computed only once.
    role: Role
    parts: tuple[AnyPart, ...]
    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Accepts the role names of other systems, and parts as a list or a string.

        Raises `ValueError` for an unknown role, and `TypeError` for a value that is not a part.
        """
        if self.role not in _ROLES:
            msgspec.structs.force_setattr(self, "role", _role_from(self.role))
        parts = cast("tuple[Any, ...]", self.parts)
        if type(parts) is not tuple or not _KNOWN_PARTS.issuperset(map(type, parts)):
            msgspec.structs.force_setattr(self, "parts", _parts_from(self.parts))

    @classmethod
    def system(cls, *parts: "AnyPart | str | os.PathLike[str]") -> "Message":
        return cls("system", _parts_from(parts))

    @classmethod
    def user(cls, *parts: "AnyPart | str | os.PathLike[str]") -> "Message":
        """Creates a message of the user. A string is text, a path is a file."""
        return cls("user", _parts_from(parts))

    @classmethod
    def assistant(cls, *parts: "AnyPart | str | os.PathLike[str]") -> "Message":
        """Creates a message of the model. A string is text, a path is a file."""
        return cls("assistant", _parts_from(parts))

    @classmethod
    def tool(cls, responses: Iterable[FunctionResponse]) -> "Message":
        """Creates a message with the results of one turn's calls, in call order."""
        return cls("tool", tuple(responses))

    @property
    def text(self) -> str:
        return "".join([part.text for part in self.parts if isinstance(part, Text)])

    @property
    def thoughts(self) -> str:
        return "".join([part.text for part in self.parts if isinstance(part, Thought)])

    @property
    def calls(self) -> tuple[FunctionCall, ...]:
        return tuple([part for part in self.parts if isinstance(part, FunctionCall)])

    @property
    def responses(self) -> tuple[FunctionResponse, ...]:
        return tuple([part for part in self.parts if isinstance(part, FunctionResponse)])

    def to_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; `from_dict` is the inverse."""
        return _lifted(msgspec.to_builtins(self))

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "Message":
        """Reads the output of `to_dict`. Unknown fields go to `extra`.

        Raises `msgspec.ValidationError`, which names the field, for invalid values.
        """
        lowered = _lowered(value, Message)
        lowered["role"] = ROLE_ALIASES.get(lowered.get("role", ""), lowered.get("role"))
        if isinstance(parts := lowered.get("parts"), list):
            lowered["parts"] = [_lowered_part(part) for part in cast("list[Any]", parts)]
        return msgspec.convert(lowered, Message)

    def to_json(self) -> bytes:
        return msgspec.json.encode(self.to_dict())

    @classmethod
    def from_json(cls, data: bytes | str) -> "Message":
        """Reads the output of `to_json`."""
        return cls.from_dict(msgspec.json.decode(data, type=dict[str, Any]))


def no_parameters() -> Schema:
    """Returns the schema of a function without parameters."""
    return {"type": "object", "properties": {}}


class FunctionDeclaration(Struct, frozen=True, omit_defaults=True):
    """The description of a function that a model sees."""

    name: str
    description: str = ""
    parameters: Schema = msgspec.field(default_factory=no_parameters)
    strict: bool | None = None
    """Whether the provider must enforce the schema, if it can."""


class GoogleSearch(Struct, frozen=True, omit_defaults=True):
    """The provider's own Google search, which the provider runs itself."""


class ProviderTool(Struct, frozen=True):
    """A provider's own tool, such as OpenAI's web search, in the form of its wire."""

    provider: str
    """The wire that knows the tool; others omit it."""
    data: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of its calls, if it has one; otherwise its type and server, or its only key.

        A name that is made from these is always one that a tool may have.
        """
        if isinstance(name := self.data.get("name"), str):
            return name
        words = (self.data.get("type"), self.data.get("server_label"))
        joined = "_".join(str(word) for word in words if word) or next(iter(self.data), "")
        made = re.sub(r"[^A-Za-z0-9_-]", "_", joined)
        return made if made[:1].isalpha() or made[:1] == "_" else f"_{made}"


Declaration: TypeAlias = FunctionDeclaration | GoogleSearch | ProviderTool


_COSTS = decimal.Context(prec=200)
"""Makes sums of costs exact, independent of the program's decimal context."""


class Usage(Struct, frozen=True, omit_defaults=True, gc=False):
    """Token counts from the provider. `input_tokens` include the cached tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    thought_tokens: int = 0
    cost: Decimal | None = None
    """The exact cost, if the price of the model is known. JSON has it as a string."""

    @property
    def all_tokens(self) -> int:
        """The total, also of a provider that counts only input and output."""
        return max(self.total_tokens, self.input_tokens + self.output_tokens)

    def __add__(self, other: "Usage") -> "Usage":
        cost = self.cost if other.cost is None else other.cost
        if self.cost is not None and other.cost is not None:
            cost = _COSTS.add(self.cost, other.cost)
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.total_tokens + other.total_tokens,
            self.cached_tokens + other.cached_tokens,
            self.thought_tokens + other.thought_tokens,
            cost,
        )


def encoded_once(message: Message, wire: str, encode: Callable[[Message], bytes]) -> bytes:
    """Returns the message's bytes on the named wire, cached after the first call.

    A run sends its whole history every round; without the cache, the cost would be quadratic.
    """
    made: dict[str, bytes] = vars(message)
    if wire not in made:
        made[wire] = encode(message)
    return made[wire]


def text_once(response: FunctionResponse) -> str:
    """Returns the response's text, cached if it is small, as in `encoded_once`."""
    known: dict[str, Any] = vars(response)
    if (text := known.get("text")) is not None:
        return text
    if size_of_part(response) > LARGE:
        return _text_of(response, _json_in_steps)
    text = known["text"] = _text_of(response, compact_json)
    return text


def _text_of(response: FunctionResponse, encode: Callable[[object], str]) -> str:
    if response.error is not None:
        return encode(response.response)
    output = response.output
    return output if isinstance(output, str) else encode(output)


def _json_in_steps(value: object) -> str:
    return encode_any_json(value).decode()


_ROLES = frozenset(get_args(Role))


def _role_from(role: str) -> Role:
    if role not in ROLE_ALIASES:
        known = ", ".join((*get_args(Role), *ROLE_ALIASES))
        raise ValueError(f"unknown role {role!r} of a message (known: {known})")
    return ROLE_ALIASES[role]


def _parts_from(given: Any) -> tuple[AnyPart, ...]:
    is_one = isinstance(given, str | Part | os.PathLike)
    items: Iterable[Any] = (cast("Any", given),) if is_one else given
    parts = tuple(map(_part_from, items))
    for index, part in enumerate(parts):
        if not isinstance(part, Part):
            raise TypeError(f"parts[{index}] of a message is not a part: {part!r:.80}")
    return cast("tuple[AnyPart, ...]", parts)


def _part_from(value: Any) -> Any:
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, os.PathLike):
        return Part.from_file(cast("os.PathLike[str]", value))
    return value


def paired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Returns the conversation with the id of its call on every response.

    A response without an id answers the first open call of its name, in the latest turn that has
    one. A call without an id gets one. User messages with responses get the role `tool`. A response
    without a matching call stays without an id.
    """
    for message in messages:
        if "paired" not in vars(message) and not _is_paired(message):
            break
    else:
        return tuple(messages)
    answered = {part.id for message in messages for part in message.responses}
    pending: list[list[FunctionCall]] = []
    arranged: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            message = _with_call_ids(message)
            pending.append([call for call in message.calls if call.id not in answered])
        elif message.responses:
            parts = tuple(_answering(part, pending) for part in message.parts)
            role: Role = "tool" if message.role == "user" else message.role
            message = Message(role, parts, message.extra)
        arranged.append(message)
    return tuple(arranged)


def _is_paired(message: Message) -> bool:
    """Whether its calls and responses have ids. Cached, because a run sends its whole history."""
    for part in message.parts:
        kind = type(part)
        if kind is FunctionResponse and (
            not cast("FunctionResponse", part).id or message.role == "user"
        ):
            return False
        if kind is FunctionCall and not cast("FunctionCall", part).id:
            return False
    vars(message)["paired"] = True
    return True


def _with_call_ids(message: Message) -> Message:
    if all(call.id for call in message.calls):
        return message
    parts = tuple(
        msgspec.structs.replace(part, id=new_call_id())
        if isinstance(part, FunctionCall) and not part.id
        else part
        for part in message.parts
    )
    return Message(message.role, parts, message.extra)


def _answering(part: AnyPart, pending: list[list[FunctionCall]]) -> AnyPart:
    if not isinstance(part, FunctionResponse) or part.id:
        return part
    for turn in reversed(pending):
        for call in turn:
            # Some systems write the call's id in the name field.
            if part.name in (call.name, call.id):
                turn.remove(call)
                return msgspec.structs.replace(part, name=call.name, id=call.id)
    return part


_MORE_TYPES = {
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".webp": "image/webp",
}
"""Types that the standard library does not know."""
_USUAL_SUFFIXES = {
    "audio/mpeg": ".mp3",
    "audio/mp3": ".mp3",
    "audio/ogg": ".ogg",
    "audio/wav": ".wav",
    "audio/x-wav": ".wav",
    "image/jpeg": ".jpg",
    "text/plain": ".txt",
}
_TEXT_TYPES = ("text/", "application/json", "application/javascript", "application/xml")
_IMAGE_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)


def guessed_type(name: str) -> str | None:
    """Returns the MIME type for a file name, the same on every machine; None if unknown."""
    # Imported here, because most programs send no files.
    from mimetypes import MimeTypes

    found = MimeTypes().guess_type(name, strict=False)[0]
    return found or _MORE_TYPES.get(Path(name).suffix.lower())


def _suffix(mime_type: str) -> str:
    """The usual suffix of a file of this type, the same on every machine; empty if unknown."""
    from mimetypes import MimeTypes

    kind = mime_type.partition(";")[0].strip().lower()
    known = {kind: suffix for suffix, kind in _MORE_TYPES.items()} | _USUAL_SUFFIXES
    return known.get(kind) or MimeTypes().guess_extension(kind, strict=False) or ""


def media_label(part: "InlineData | FileData") -> str:
    """A text in place of media: its type, and its size or its address."""
    kind = part.mime_type or "file"
    if isinstance(part, InlineData):
        return f"[{kind}, {len(part.data)} bytes]"
    return f"[{kind} at {part.uri}]"


def without_media(response: FunctionResponse) -> FunctionResponse:
    """The result for a model that reads only text: a label in place of each of its media."""
    if not response.parts:
        return response
    labels = [media_label(part) for part in response.parts]
    missing = [label for label in labels if label not in response.text]
    if response.error is not None or not missing:
        return msgspec.structs.replace(response, parts=())
    text = "\n".join(filter(None, (response.text, *missing)))
    return msgspec.structs.replace(response, response={"output": text}, parts=())


def image_type(data: bytes) -> str | None:
    """Returns the MIME type of an image by its first bytes; None if unknown."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp" and data[8:12] in (b"avif", b"heic", b"heix", b"mif1"):
        return "image/avif" if data[8:12] == b"avif" else "image/heic"
    return next((kind for start, kind in _IMAGE_STARTS if data.startswith(start)), None)


def _file_part(path: Path, mime_type: str | None) -> "Text | InlineData":
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    kind = mime_type or guessed_type(path.name) or image_type(data)
    if kind is None or kind.startswith(_TEXT_TYPES):
        text = _decoded_text(data)
        if text is not None:
            return Text(text)
        if kind is not None:
            raise ConfigError(f"cannot read {path} as {kind}: it is not UTF-8")
        raise ConfigError(
            f"cannot tell the type of {path}: use Part.from_file(path, mime_type=...)"
        )
    # OpenAI needs a file name for anything except images and audio.
    named = kind.partition("/")[0] not in ("image", "audio")
    extra = {"openai": {"file": {"filename": path.name}}} if named else {}
    return InlineData(data, kind, extra=extra)


def _decoded_text(data: bytes) -> str | None:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


PART_OVERHEAD = 64
"""The size of a part without its content."""


def size_of_message(message: Message) -> int:
    """Estimates the size in characters or bytes; cached, as in `encoded_once`."""
    known = vars(message)
    if (size := known.get("size")) is None:
        sizes = map(size_of_part, message.parts)
        size = PART_OVERHEAD * len(message.parts) + sum(sizes)
        if _has_large_extra(message):
            size += LARGE + 1
        known["size"] = size
    return size


def _has_large_extra(message: Message) -> bool:
    extras = [each.extra for each in (message, *message.parts) if each.extra]
    return bool(extras) and is_larger(extras, LARGE)


def size_of_part(part: AnyPart) -> int:
    """Estimates the size in characters or bytes. A result above `LARGE` only means "large"."""
    match part:
        case Text(text=text) | Thought(text=text):
            return len(text)
        case FunctionCall(json=text):
            return len(text)
        case InlineData(data=data):
            return len(data)
        case FunctionResponse():
            return _size_of_response(part)
        case _:
            return LARGE + 1 if is_larger(getattr(part, "data", None), LARGE) else 0


def _size_of_response(response: FunctionResponse) -> int:
    known: dict[str, Any] = vars(response)
    if (size := known.get("size")) is None:
        media = [len(each.data) for each in response.parts if isinstance(each, InlineData)]
        is_large = is_larger(response.response, LARGE)
        size = known["size"] = sum(media) + (LARGE + 1 if is_large else 0)
    return size


def _json_object(text: str) -> tuple[dict[str, Any], str | None]:
    """Decodes arguments. Empty text means `{}`, because some models write no empty object."""
    if not text.strip():
        return {}, None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return {}, f"the arguments are not valid JSON: {error}"
    if not isinstance(value, dict):
        return {}, "the arguments are not a JSON object"
    return cast("dict[str, Any]", value), None


# Unknown fields are beside the known fields in JSON, and in `extra` in Python.


def _lifted(value: dict[str, Any]) -> dict[str, Any]:
    extra = value.pop("extra", {})
    clashing = {key: extra[key] for key in extra if key in value or key == "extra"}
    lifted = {**extra, **value, **({"extra": clashing} if clashing else {})}
    if isinstance(parts := lifted.get("parts"), tuple):
        lifted["parts"] = [_lifted(part) for part in cast("tuple[dict[str, Any], ...]", parts)]
    return lifted


def _lowered(value: dict[str, Any], kind: type[Struct], tag: str | None = None) -> dict[str, Any]:
    known = {*kind.__struct_fields__, *((tag,) if tag else ())}
    extra = {key: field for key, field in value.items() if key not in known}
    lowered = {key: field for key, field in value.items() if key in known}
    if extra:
        lowered["extra"] = {**extra, **value.get("extra", {})}
    return lowered


def _lowered_part(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    part = cast("dict[str, Any]", value)
    for kind in _PART_TYPES:
        if kind.__struct_config__.tag == part.get("type"):
            lowered = _lowered(part, kind, "type")
            if isinstance(nested := lowered.get("parts"), list):
                lowered["parts"] = [_lowered_part(item) for item in cast("list[Any]", nested)]
            return lowered
    return part
