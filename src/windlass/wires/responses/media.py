"""Images, files and audio as parts of a Responses item. Pure."""

from urllib.parse import unquote_to_bytes, urlsplit

from windlass.content import AnyPart, FileData, InlineData, Opaque, guessed_type
from windlass.jsontext import from_base64, to_base64
from windlass.request import PartKind
from windlass.wires.errors import InvalidRequest
from windlass.wires.fields import JsonObject, as_object, as_text, merged, rest

PROVIDER = "responses"
KINDS: dict[str, PartKind] = {
    "input_image": "image",
    "input_file": "file",
    "input_audio": "audio",
}
"""The kinds of content, by the type of the part."""

_AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/x-wav": "wav", "audio/wave": "wav"}
_DEFAULT_TYPE = "application/octet-stream"


def encode_media(part: InlineData | FileData) -> JsonObject:
    """The part of an item's content."""
    extra: JsonObject = part.extra.get(PROVIDER, {})
    mime = part.mime_type or guessed_type(urlsplit(_uri(part)).path) or "image/*"
    family = mime.partition("/")[0]
    if family == "image" and not extra.get("filename"):
        url = _uri(part) if isinstance(part, FileData) else _data_url(part)
        return merged({"type": "input_image", "image_url": url, "detail": "auto"}, extra)
    if isinstance(part, FileData):
        return merged({"type": "input_file", "file_url": part.uri}, extra)
    if family == "audio":
        audio = {"data": to_base64(part.data), "format": _AUDIO_FORMATS.get(mime, mime[6:])}
        return merged({"type": "input_audio", "input_audio": audio}, extra)
    name = _file_name(part) or f"file.{mime.partition('/')[2]}"
    file = {"type": "input_file", "filename": name, "file_data": _data_url(part)}
    return merged(file, extra)


def is_audio(part: InlineData | FileData) -> bool:
    """Whether the part is audio as bytes, which only a message may have."""
    return isinstance(part, InlineData) and part.mime_type.startswith("audio/")


def decode_media(part: JsonObject, place: str) -> AnyPart:
    """A part that is not text. One that is given by a file id stays as it is.

    Raises `InvalidRequest`, which names the field.
    """
    match part:
        case {"type": "input_image", "image_url": str(url)}:
            extra = rest(part, "type", "image_url", "file_id")
            if extra.get("detail") == "auto":
                del extra["detail"]
            return _from_url(url, _extra(extra), f"{place}.image_url", "image/*")
        case {"type": "input_image", "image_url": {"url": str(url)}}:  # as in chat completions
            return _from_url(url, {}, f"{place}.image_url", "image/*")
        case {"type": "input_file", "file_data": str(data)}:
            return _file(part, data, place)
        case {"type": "input_file", "file_url": str(url)}:
            extra = _extra(rest(part, "type", "file_url"))
            name = as_text(part.get("filename")) or _path(url, f"{place}.file_url")
            return FileData(url, guessed_type(name) or _DEFAULT_TYPE, extra=extra)
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
            audio = _bytes(data, f"{place}.input_audio.data")
            return InlineData(audio, f"audio/{form}")
        case {"file_id": str()}:
            return Opaque(PROVIDER, part)
        case {"type": "input_image"}:
            raise _missing(f"{place}.image_url", "an input_image needs an image_url or a file_id")
        case {"type": "input_file"}:
            at = f"{place}.file_data"
            raise _missing(at, "an input_file needs file_data, a file_url or a file_id")
        case {"type": "input_audio"}:
            raise _missing(f"{place}.input_audio", "must have data and a format")
        case _:
            return Opaque(PROVIDER, part)


def _missing(place: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{place}: {message}", place)


def _path(url: str, place: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        raise InvalidRequest(f"{place}: not a URL", place) from None


def _uri(part: InlineData | FileData) -> str:
    return part.uri if isinstance(part, FileData) else ""


def _data_url(part: InlineData) -> str:
    return f"data:{part.mime_type};base64,{to_base64(part.data)}"


def _file_name(part: InlineData) -> str | None:
    """The file name, in the field in which `Part.from_file` and the chat wire keep it."""
    file = as_object((as_object(part.extra.get("openai")) or {}).get("file")) or {}
    return as_text(file.get("filename"))


def _file(part: JsonObject, data: str, place: str) -> InlineData | FileData:
    name = as_text(part.get("filename"))
    named: JsonObject = {"openai": {"file": {"filename": name}}} if name else {}
    extra = named | _extra(rest(part, "type", "file_data", "filename"))
    if data.startswith("data:"):
        return _from_url(data, extra, f"{place}.file_data", _DEFAULT_TYPE)
    mime = guessed_type(name or "") or _DEFAULT_TYPE
    return InlineData(_bytes(data, f"{place}.file_data"), mime, extra=extra)


def _extra(fields: JsonObject) -> JsonObject:
    return {PROVIDER: fields} if fields else {}


def _from_url(url: str, extra: JsonObject, place: str, kind: str) -> InlineData | FileData:
    if not url.startswith("data:"):
        return FileData(url, extra=extra) if kind == "image/*" else FileData(url, kind, extra=extra)
    comma = url.find(",")
    if comma < 0:
        raise InvalidRequest(f"{place}: the data URL has no comma", place)
    mime, *flags = url[5:comma].split(";")
    is_base64 = "base64" in flags
    data = _bytes(url, place, comma + 1) if is_base64 else unquote_to_bytes(url[comma + 1 :])
    return InlineData(data, mime or kind.replace("image/*", "image/png"), extra=extra)


def _bytes(data: str, place: str, start: int = 0) -> bytes:
    try:
        return from_base64(data, start)
    except ValueError:
        raise InvalidRequest(f"{place}: not base64", place) from None
