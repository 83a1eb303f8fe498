"""Reads the images of a prompt (files, bytes, URLs) into parts."""

import os
import re
from collections.abc import Sequence
from typing import TypeAlias, cast
from urllib.parse import urlsplit

from windlass.client.options import Prompt, messages_from
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
from windlass.errors import ConfigError

Image: TypeAlias = "str | bytes | os.PathLike[str] | InlineData | FileData"
"""A file (`Path`, or its name), the bytes of an image, an http(s) or data URL, or a part."""

_ADDRESS = re.compile(r"(?:https?|gs|data):", re.IGNORECASE)


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
