"""The required form of an answer: a schema, and how the model is asked for it. Pure."""

import re
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast, get_args

from msgspec import Struct

from windlass.content import Schema
from windlass.errors import ConfigError
from windlass.schema import mapped

T = TypeVar("T")

OutputMethod: TypeAlias = Literal["auto", "native", "tool", "prompt"]
"""How the model is asked for a value.

auto: the first of the others that the model and its tools allow.
native: the provider's structured output, or a grammar for an embedded model.
tool: a tool whose arguments are the answer.
prompt: the schema is in the prompt.
"""

VALUE = "value"
"""The only field of the object that wraps a value of another type."""
DEFAULT_RETRIES = 2
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
_MAX_NAME_CHARS = 64


class Accepted(Struct, Generic[T], frozen=True):
    """A valid answer."""

    value: T


class Rejected(Struct, frozen=True):
    """An invalid answer: what is wrong with it, in words that a model can act on."""

    errors: tuple[str, ...]


class OutputSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The required form of a run's answer. It is stored with the run."""

    schema: Schema
    """The schema that the model gets; `{}` means any JSON object."""
    name: str = "answer"
    wrapped: bool = False
    """Whether the schema is an object around the value, because many providers need an object."""
    derived: bool = False
    """Whether the schema was made from a Python type, so that Windlass may change its form."""
    method: OutputMethod = "auto"
    retries: int = DEFAULT_RETRIES
    """How often an invalid answer goes back to the model."""
    validated: bool = False
    """Whether a function of the caller validates the value, too."""

    def __post_init__(self) -> None:
        if self.method not in get_args(OutputMethod):
            known = ", ".join(map(repr, get_args(OutputMethod)))
            raise ConfigError(f"output_method must be one of {known}, not {self.method!r}")
        if type(self.retries) is not int or self.retries < 0:
            raise ConfigError(f"output_retries must be 0 or more, not {self.retries!r}")

    @property
    def is_object(self) -> bool:
        """Whether every valid answer is a JSON object."""
        return is_object(self.schema)


def is_object(schema: Schema) -> bool:
    """Whether the schema declares an object at its root; `{}` means any JSON object here."""
    return not schema or schema.get("type") == "object"


def in_object(schema: Schema) -> Schema:
    """Returns the schema of an object whose only field has the given schema."""
    inner = dict(schema)
    definitions = inner.pop("$defs", None)
    outer: Schema = {
        "type": "object",
        "properties": {VALUE: inner},
        "required": [VALUE],
        "additionalProperties": False,
    }
    return {**outer, "$defs": definitions} if definitions else outer


def closed(schema: Schema) -> Schema:
    """Returns the schema in which objects with declared fields have no other fields."""
    result = mapped(schema, closed)
    if "properties" in result and "additionalProperties" not in result:
        result["additionalProperties"] = False
    return result


def schema_name(name: str) -> str:
    """Returns the name in the characters that all providers allow."""
    return _NOT_IN_NAMES.sub("_", name)[:_MAX_NAME_CHARS].strip("_") or "answer"


_STRICT_KEYWORDS = frozenset(
    {
        *("type", "description", "title", "enum", "const", "anyOf", "$ref", "$defs"),
        *("properties", "required", "additionalProperties", "items", "default"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minItems", "maxItems", "pattern", "format"),
    }
)
_STRICT_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)


def strict_schema(schema: Schema) -> Schema | None:
    """Returns the form of the schema that OpenAI enforces: closed, and every field is required.

    None if the schema has no such form: an object with any fields, or an unsupported keyword.
    """
    try:
        return _strict(schema)
    except _NotStrict:
        return None


class _NotStrict(Exception):
    """The schema has no strict form."""


def _strict(schema: Schema) -> Schema:
    if schema.keys() - _STRICT_KEYWORDS or schema.get("format", "date") not in _STRICT_FORMATS:
        raise _NotStrict
    result = mapped(schema, _strict)
    result.pop("default", None)
    if _may_be_object(result):
        if "properties" not in result or result.get("additionalProperties", False) is not False:
            raise _NotStrict
        result["required"] = list(cast("dict[str, Any]", result["properties"]))
        result["additionalProperties"] = False
    elif not any(key in result for key in ("type", "enum", "const", "anyOf", "$ref")):
        raise _NotStrict
    return result


def _may_be_object(schema: Schema) -> bool:
    kinds: Any = schema.get("type")
    return kinds == "object" or (isinstance(kinds, list) and "object" in kinds)
