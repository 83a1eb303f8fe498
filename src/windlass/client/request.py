"""What one call of `generate`, `stream`, `start` or `send` asks: prompt, images, tools, output."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict, TypeVar, cast
from urllib.parse import urlsplit

from msgspec.structs import replace
from typing_extensions import TypeForm

from windlass.client.options import Prompt, RunOptions, messages_from
from windlass.content import (
    AnyPart,
    FileData,
    InlineData,
    Message,
    Part,
    Text,
    guessed_type,
    image_type,
)
from windlass.errors import ConfigError, RunInterrupted
from windlass.loop.output import OutputCheck, OutputValidator
from windlass.output.spec import OutputMethod, OutputSpec

if TYPE_CHECKING:
    from windlass.output.value import OutputType


T = TypeVar("T")

OutputForm: TypeAlias = type[T] | TypeForm[T]
"""A type of answers. `TypeForm` lets type checkers infer unions and literals, too."""
JsonSchema: TypeAlias = Mapping[str, Any]
Image: TypeAlias = "str | bytes | os.PathLike[str] | InlineData | FileData"
"""A file (`Path`, or its name), the bytes of an image, an http(s) or data URL, or a part."""

_ADDRESS = re.compile(r"(?:https?|gs|data):", re.IGNORECASE)


class CallOptions(RunOptions, total=False):
    """The arguments of `generate`, `stream` and `start`, without the prompt and `output`."""

    images: Sequence[Image] | None
    """Files (`Path`), bytes or URLs, which follow the prompt."""
    tools: Iterable[Any] | None
    """The tools of this run; None means those of the client."""
    output_validator: OutputValidator | None
    """Validates the value of the type `output`, too."""


class SendOptions(TypedDict, total=False):
    """The arguments of `send` and `stream` of a chat, without the prompt and `output`."""

    images: Sequence[Image] | None
    output_method: OutputMethod
    output_retries: int
    output_validator: OutputValidator | None


class ClientRequest(NamedTuple):
    """A prompt with its images, the tools, the options and the type of the answer."""

    prompt: Prompt
    tools: Iterable[Any] | None = None
    options: RunOptions = RunOptions()
    output: Any = None
    validator: OutputValidator | None = None


def client_request(
    prompt: Prompt, output: Any, arguments: CallOptions | SendOptions
) -> ClientRequest:
    """Reads the arguments of a call. Raises `ConfigError` for invalid images."""
    options = cast("CallOptions", {**arguments})
    images, tools = options.pop("images", None), options.pop("tools", None)
    validator = options.pop("output_validator", None)
    return ClientRequest(with_images(prompt, images), tools, options, output, validator)


def with_images(prompt: Prompt, images: Sequence[Image] | None) -> Prompt:
    """Appends the images to the last message of the prompt. Raises `ConfigError`."""
    if isinstance(images, str | bytes | os.PathLike | Part):
        raise ConfigError("images must be a list, even of one image")
    if not images:
        return prompt
    parts = [_part(image) for image in images]
    messages = messages_from(prompt, None) if prompt else ()
    if not messages or messages[-1].role != "user":
        return (*messages, Message.user(*parts))
    last = messages[-1]
    asked = Message(last.role, (*last.parts, *parts), last.extra)
    return (*messages[:-1], asked)


def _part(image: object) -> AnyPart:
    if isinstance(image, InlineData | FileData):
        return image
    if isinstance(image, bytes | bytearray):
        return _from_bytes(bytes(image))
    if isinstance(image, str) and _ADDRESS.match(image):
        return _from_address(image)
    if not isinstance(image, str | os.PathLike):
        raise ConfigError(f"an image cannot be a {type(image).__name__}: {image!r:.80}")
    part = Part.from_file(cast("str | os.PathLike[str]", image))
    if isinstance(part, Text) or not part.mime_type.startswith("image/"):
        raise ConfigError(f"{image} is not an image: put the file into the prompt")
    return part


def _from_bytes(data: bytes) -> InlineData:
    kind = image_type(data)
    if kind is None:
        raise ConfigError(
            "cannot tell the type of an image from its bytes: use Part.from_bytes(data, mime_type)"
        )
    return InlineData(data, kind)


def _from_address(address: str) -> AnyPart:
    if address[:5].lower() == "data:":
        # The OpenAI wire decodes data URLs.
        from windlass.wires.chat.messages import decode_media

        return decode_media({"type": "image_url", "image_url": {"url": address}}, "images")
    kind = guessed_type(urlsplit(address).path)
    return FileData(address, kind if kind and kind.startswith("image/") else None)


def type_of(output: Any) -> "OutputType":
    """Returns the type of answers. Raises `ConfigError` if it has no JSON Schema."""
    # Imported here, because clients without types start faster.
    from windlass.output.value import output_type

    return output_type(output)


def check_of(
    output: Any, validator: OutputValidator | None, options: RunOptions
) -> OutputCheck | None:
    """Returns the check of a run; None without `output`. Raises `ConfigError`."""
    if output is None:
        if validator is not None:
            raise ConfigError("output_validator needs output=: pass the type of the answer")
        return None
    if options.get("response_schema") is not None:
        raise ConfigError("output and response_schema exclude each other: pass only one of them")
    kind = type_of(output)
    spec = replace(
        kind.spec,
        method=options.get("output_method", "auto"),
        retries=options.get("output_retries", kind.spec.retries),
        validated=validator is not None,
    )
    return OutputCheck(spec, kind, validator)


class ResumedOutputs:
    """The types of answers and the validator for runs that are resumed."""

    def __init__(self, outputs: Iterable[Any], validator: OutputValidator | None) -> None:
        self._types = [type_of(each) for each in outputs]
        self._validator = validator

    def check(self, spec: OutputSpec) -> OutputCheck:
        """Returns the check with the type of the same schema, else with the stored schema.

        Raises `RunInterrupted` if the run needs a validator and none is given.
        """
        if spec.validated and self._validator is None:
            raise RunInterrupted(
                "the run was interrupted, and its validator is missing: pass output_validator= to"
                " resume"
            )
        stored = OutputCheck.of_schema(spec)
        found = next((each for each in self._types if each.spec.schema == spec.schema), stored.type)
        return OutputCheck(spec, found, self._validator if spec.validated else None)
