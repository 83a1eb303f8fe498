"""Content parts of the chat-completions wire that are not text: both ways, without loss."""

from typing import Any
from urllib.parse import unquote_to_bytes

from windlass.content import AnyPart, FileData, InlineData, Opaque
from windlass.errors import ConfigError
from windlass.jsontext.large import from_base64, to_base64
from windlass.models.fields import JsonObject, merged, rest

__all__ = ["PROVIDER", "decode_media", "encode_media"]

PROVIDER = "openai"
_AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/x-wav": "wav", "audio/wave": "wav"}


def encode_media(part: InlineData | FileData) -> JsonObject:
    """Raises `ConfigError` for what this wire has no place for."""
    extra: JsonObject = part.extra.get(PROVIDER, {})
    kind = next((kind for kind in ("image_url", "input_audio", "file") if kind in extra), None)
    mime = part.mime_type or "image/*"
    if kind is None:
        family = mime.partition("/")[0]
        kind = {"image": "image_url", "audio": "input_audio"}.get(family, "file")
    return merged({"type": kind, kind: _encoded(part, kind, mime)}, extra)


def _encoded(part: InlineData | FileData, kind: str, mime: str) -> JsonObject:
    if isinstance(part, FileData):
        if kind != "image_url":
            raise ConfigError(f"the OpenAI wire takes {mime} as bytes, not by address: {part.uri}")
        return {"url": part.uri}
    data = to_base64(part.data)
    if kind == "input_audio":
        return {"data": data, "format": _AUDIO_FORMATS.get(mime, mime.partition("/")[2])}
    return {"url" if kind == "image_url" else "file_data": f"data:{mime};base64,{data}"}


def decode_media(part: JsonObject, place: str) -> AnyPart:
    """The part of a content list; a kind that is not known here is kept whole.

    Raises `ConfigError`, which names the field, for data that cannot be read.
    """
    match part:
        case {"type": "image_url", "image_url": {"url": str(url), **inner}}:
            extra = _extra(part, "image_url", inner)
            return _from_url(url, extra, f"{place}.image_url.url")
        case {
            "type": "input_audio",
            "input_audio": {"data": str(data), "format": str(form), **inner},
        }:
            extra = _extra(part, "input_audio", inner)
            audio = _bytes(data, f"{place}.input_audio.data")
            return InlineData(audio, f"audio/{form}", extra=extra)
        case {"type": "file", "file": {"file_data": str(url), **inner}} if url.startswith("data:"):
            # The kind goes along: a PDF and an image may both be a `file`.
            extra = merged({PROVIDER: {"file": {}}}, _extra(part, "file", inner))
            return _from_url(url, extra, f"{place}.file.file_data")
        case {"type": "image_url"} | {"type": "input_audio"}:
            kind = part["type"]
            raise ConfigError(f"{place}.{kind}: not what {kind} looks like")
        case _:
            return Opaque(PROVIDER, part)


def _extra(part: JsonObject, kind: str, inner: dict[str, Any]) -> JsonObject:
    unknown = rest(part, "type", kind)
    if unknown_inside := rest(inner):
        unknown[kind] = unknown_inside
    return {PROVIDER: unknown} if unknown else {}


def _from_url(url: str, extra: JsonObject, place: str) -> InlineData | FileData:
    if not url.startswith("data:"):
        return FileData(url, extra=extra)
    comma = url.find(",")
    if comma < 0:
        raise ConfigError(f"{place}: a data URL without its comma")
    mime, *flags = url[5:comma].split(";")
    is_base64 = "base64" in flags
    content = _bytes(url, place, comma + 1) if is_base64 else unquote_to_bytes(url[comma + 1 :])
    kind = "image_url" if place.endswith("image_url.url") else "file"
    if kind == "image_url" and not mime.startswith("image/"):
        extra = merged({PROVIDER: {kind: {}}}, extra)
    return InlineData(content, mime or "application/octet-stream", extra=extra)


def _bytes(data: str, place: str, start: int = 0) -> bytes:
    try:
        return from_base64(data, start)
    except ValueError:
        raise ConfigError(f"{place}: not base64") from None
