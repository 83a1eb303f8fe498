"""What one call of `generate`, `stream`, `start` or `send` asks, read from its arguments."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypedDict, cast

from windlass.client.images import Image, with_images
from windlass.client.options import Prompt, RunOptions
from windlass.loop.output import OutputValidator
from windlass.output.spec import OutputMethod


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
