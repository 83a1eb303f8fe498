"""Reads and validates the body of a generateContent request. Pure.

Google's service accepts every name in camel case and in snake case, and so does this reader.
"""

from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from windlass.model import Settings
from windlass.request import ClientTools, RequestLimits, RunRequest
from windlass.tool.declarations import InvalidSchema, normalised_parameters
from windlass.wires.body import Fields, fields_of
from windlass.wires.errors import InvalidRequest
from windlass.wires.fields import JsonObject, as_list, as_object, as_text, rest
from windlass.wires.gemini.conversation import read_contents, read_instruction
from windlass.wires.gemini.messages import as_items, camel_key, camel_keys
from windlass.wires.gemini.tools import read_tool_choice, read_tools
from windlass.wires.gemini.write_events import Form
from windlass.wires.gemini.write_request import THINKING_BUDGETS

WIRE = "gemini"
EarlierText: TypeAlias = Literal["include", "omit"]
"""Whether an answer contains the text of earlier rounds."""
_KNOWN_FIELDS = frozenset(
    {"model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}
)
_CONFIG = "generationConfig"
_SETTINGS = frozenset(
    {
        "temperature",
        "topP",
        "topK",
        "maxOutputTokens",
        "stopSequences",
        "seed",
        "presencePenalty",
        "frequencyPenalty",
        "responseLogprobs",
        "logprobs",
        "candidateCount",
    }
)
_FORMAT = frozenset({"responseMimeType", "responseSchema", "responseJsonSchema"})
_JSON_TYPE = "application/json"
_LEVELS = frozenset({"minimal", "low", "medium", "high"})
_NO_SETTINGS = Settings()
T = TypeVar("T")


class _Section:
    """The fields of an object by their camel-case names. Errors name the whole path."""

    def __init__(self, fields: Fields, place: str = "") -> None:
        self._fields, self._place = fields, place
        self._spelled = {camel_key(name): name for name in fields.names}
        self.names = self._spelled.keys()

    def value(self, name: str, kind: type[T]) -> T | None:
        try:
            return self._fields.value(self._spelled.get(name, name), kind)
        except InvalidRequest as error:
            if not self._place:
                raise
            place = f"{self._place}.{error.param}"
            raise InvalidRequest(f"{self._place}.{error.message}", place, error.code) from None

    def any(self, name: str) -> Any:
        return self._fields.any(self._spelled.get(name, name))

    def raw(self, name: str) -> bytes:
        return self._fields.raw(self._spelled.get(name, name))


def read_request(
    body: bytes,
    limits: RequestLimits,
    model: str,
    earlier_text: EarlierText = "include",
    *,
    live: bool = False,
) -> RunRequest:
    """Reads a request to a model, which is in its path. Raises `InvalidRequest`.

    `earlier_text` is the gateway's setting. A JSON answer never contains text of earlier rounds,
    since that would make it invalid JSON.
    """
    fields = _Section(fields_of(body, limits.max_json_depth))
    conversation = read_contents(_contents(fields, limits))
    config = _config(fields, limits)
    settings = _settings(config) if config else _NO_SETTINGS
    thinking = _thinking(config)
    tools = fields.raw("tools")
    form = Form(
        thoughts=thinking.get("includeThoughts") is True,
        all_text=earlier_text == "include" and settings.response_schema is None,
    )
    return RunRequest(
        wire=WIRE,
        model=model,
        messages=(*read_instruction(fields.any("systemInstruction")), *conversation.messages),
        tools=ClientTools(tools, read_tools) if tools else ClientTools(),
        tool_choice=read_tool_choice(fields.any("toolConfig")),
        settings=settings,
        extra=_extra(fields, config),
        live=live,
        parts=conversation.parts,
        answer=msgspec.to_builtins(form),
        size=len(body),
    )


def counted_body(body: bytes, limits: RequestLimits) -> bytes:
    """The request whose tokens a `countTokens` body asks for: the body, or its inner request."""
    fields = _Section(fields_of(body, limits.max_json_depth))
    return fields.raw("generateContentRequest") or body


def _contents(fields: _Section, limits: RequestLimits) -> list[Any]:
    contents = as_items(fields.any("contents"))
    if not contents:
        raise InvalidRequest("contents: must be a list with at least one content", "contents")
    if len(contents) > limits.max_messages:
        raise InvalidRequest(
            f"contents: {len(contents)} contents exceed the limit of {limits.max_messages}",
            "contents",
        )
    return contents


def _config(fields: _Section, limits: RequestLimits) -> _Section | None:
    raw = fields.raw(_CONFIG)
    if not raw:
        return None
    if as_object(fields.any(_CONFIG)) is None:
        raise InvalidRequest(f"{_CONFIG}: must be an object", _CONFIG)
    return _Section(fields_of(raw, limits.max_json_depth), _CONFIG)


def _settings(config: _Section) -> Settings:
    if config.value("candidateCount", int) not in (None, 1):
        place = f"{_CONFIG}.candidateCount"
        raise InvalidRequest(f"{place}: only 1 is supported", place)
    return Settings(
        temperature=config.value("temperature", float),
        top_p=config.value("topP", float),
        top_k=config.value("topK", int),
        max_tokens=_max_tokens(config),
        stop=_stop(config),
        seed=config.value("seed", int),
        presence_penalty=config.value("presencePenalty", float),
        frequency_penalty=config.value("frequencyPenalty", float),
        logprobs=config.value("responseLogprobs", bool),
        top_logprobs=config.value("logprobs", int),
        reasoning_effort=_effort(_thinking(config)),
        response_schema=_schema(config),
    )


def _max_tokens(config: _Section) -> int | None:
    limit = config.value("maxOutputTokens", int)
    if limit is not None and limit < 1:
        place = f"{_CONFIG}.maxOutputTokens"
        raise InvalidRequest(f"{place}: must be at least 1", place)
    return limit


def _stop(config: _Section) -> tuple[str, ...] | None:
    value = config.any("stopSequences")
    if value is None:
        return None
    texts = as_list(value)
    if texts is None or not all(isinstance(text, str) for text in texts):
        place = f"{_CONFIG}.stopSequences"
        raise InvalidRequest(f"{place}: must be a list of strings", place)
    return tuple(texts) or None


def _schema(config: _Section) -> JsonObject | None:
    """The schema of the answer; `{}` for any JSON, None for text."""
    kind = config.value("responseMimeType", str)
    if kind not in (None, _JSON_TYPE):
        return None
    for name in ("responseJsonSchema", "responseSchema"):
        value = config.any(name)
        if value is None:
            continue
        place, schema = f"{_CONFIG}.{name}", as_object(value)
        if schema is None:
            raise InvalidRequest(f"{place}: must be an object", place)
        try:
            return normalised_parameters(name, schema) if schema else {}
        except InvalidSchema as error:
            at = f"{place}{error.place.removeprefix('parameters')}"
            raise InvalidRequest(f"{at}: not a schema: {error.reason}", at) from None
    return {} if kind else None


def _thinking(config: _Section | None) -> JsonObject:
    value = config.any("thinkingConfig") if config else None
    thinking = as_object(value)
    if thinking is None:
        if value is None:
            return {}
        place = f"{_CONFIG}.thinkingConfig"
        raise InvalidRequest(f"{place}: must be an object", place)
    return camel_keys(thinking)


def _effort(thinking: JsonObject) -> str | None:
    """How much the model shall think, in the words of `Settings`."""
    level = (as_text(thinking.get("thinkingLevel")) or "").lower()
    if level in _LEVELS:
        return level
    budget = thinking.get("thinkingBudget")
    if type(budget) is not int or budget < 0:  # -1: as much as the model wants
        return None
    return next((word for word, most in THINKING_BUDGETS.items() if budget <= most), "high")


def _extra(fields: _Section, config: _Section | None) -> JsonObject:
    """What only a model on the same wire receives, with camel-case names."""
    extra = {name: fields.any(name) for name in fields.names - _KNOWN_FIELDS}
    if tool_config := _other_tool_config(fields):
        extra["toolConfig"] = tool_config
    if config is not None and (other := _other_config(config)):
        extra[_CONFIG] = other
    return rest(extra)


def _other_tool_config(fields: _Section) -> JsonObject:
    config = as_object(fields.any("toolConfig")) or {}
    return rest(camel_keys(config), "functionCallingConfig")


def _other_config(config: _Section) -> JsonObject:
    known = _SETTINGS if _is_plain_format(config) else _SETTINGS | _FORMAT
    other = rest({name: config.any(name) for name in config.names - known})
    if thinking := _thinking(config):
        # The encoder writes a budget; a level must replace it, because both are an error.
        level = "thinkingLevel" in thinking and _effort(thinking) is not None
        other["thinkingConfig"] = {"thinkingBudget": None, **thinking} if level else thinking
    return other


def _is_plain_format(config: _Section) -> bool:
    """Whether the format is not JSON, such as `text/x.enum`, which only Google's service knows."""
    return config.any("responseMimeType") not in (None, _JSON_TYPE)
