"""Values of incomplete answers: the part of a value that a model has already written. Pure."""

import dataclasses
import functools
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, NotRequired, Required, Union, cast, get_args, get_origin

import msgspec
from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import ValidationError, from_json
from typing_extensions import ReadOnly, is_typeddict

from windlass.events import RoundRestarted, RoundStarted, RunEvent, TextDelta
from windlass.output.spec import VALUE
from windlass.output.value import OutputType
from windlass.reply import Reply

_STEPS = 64
"""A long answer is read again after each 64th of its length, so that the work stays linear."""
_OPEN_NUMBER = re.compile(r"(?<=[\s:,\[])-?\d[\d.eE+-]*\Z")
"""A number at the end of the text, which may have more digits."""


class _Nothing:
    """There is no value yet."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()


def partial_json(text: str) -> Any:
    """Returns the value of a JSON text that may end anywhere; `NOTHING` if there is none yet.

    Strings may be incomplete. A number or word at the end is left out until it is complete.
    """
    try:
        return from_json(_OPEN_NUMBER.sub("", text), allow_partial="trailing-strings")
    except (ValueError, TypeError):  # TypeError: half a surrogate pair
        return NOTHING


class PartialReader:
    """Reads the events of a run, and yields the value that the model is writing.

    A rejected answer starts again with the next round.
    """

    def __init__(self, output: OutputType) -> None:
        self._output = output
        self._text = ""
        self._read_chars = 0
        self._last: Any = NOTHING

    def read(self, event: RunEvent) -> Iterator[Any]:
        """Yields the new value, if the event changes it."""
        if isinstance(event, RoundStarted | RoundRestarted):
            self._text, self._read_chars = "", 0
        elif isinstance(event, TextDelta):
            self._text += event.text
            if len(self._text) - self._read_chars > len(self._text) // _STEPS:
                self._read_chars = len(self._text)
                yield from self._changed(self._value())

    def finish(self, reply: Reply) -> Iterator[Any]:
        """Yields the validated value, unless it equals the last one."""
        yield from self._changed(reply.output)

    def _value(self) -> Any:
        value = partial_json(self._text)
        if self._output.spec.wrapped:
            value = _unwrapped(value)
        if value is NOTHING or isinstance(self._output.hint, Mapping):
            return value
        return filled(self._output.hint, value)

    def _changed(self, value: Any) -> Iterator[Any]:
        if value is NOTHING or _same(value, self._last):
            return
        self._last = value
        yield value


def _same(one: Any, other: Any) -> bool:
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:  # noqa: BLE001 - the user's `__eq__` may expect complete values
        return False


def _unwrapped(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return fields.get(VALUE, fields) if fields else NOTHING
    return value


def filled(hint: Any, value: Any) -> Any:
    """Returns the value as an object of the type, with None for missing fields.

    Validators do not run. `NOTHING` if no value of the type can be made of it yet.
    """
    hint = _bare(hint)
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return value
    if origin in (Union, types.UnionType):
        return _of_union(args, value)
    if isinstance(value, list):
        return _of_list(hint, origin, args, cast("list[Any]", value))
    if isinstance(value, dict):
        return _of_object(hint, origin, args, cast("dict[str, Any]", value))
    return _leaf(hint, value)


def _bare(hint: Any) -> Any:
    while get_origin(hint) in (Annotated, Required, NotRequired, ReadOnly):
        hint = get_args(hint)[0]
    return hint


def _of_union(members: tuple[Any, ...], value: Any) -> Any:
    """The first member of which a value can be made; of objects, the one with most of the fields.

    A tag that differs, such as `kind: Literal["cat"]`, is not a field of that member.
    """
    if value is None and type(None) in members:
        return None
    found = [(member, filled(member, value)) for member in members]
    fitting = [(member, made) for member, made in found if made is not NOTHING]
    if not fitting:
        return NOTHING
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return max(fitting, key=lambda each: len(_given(_fields(_bare(each[0])), fields)))[1]
    return fitting[0][1]


def _of_list(hint: Any, origin: Any, args: tuple[Any, ...], items: list[Any]) -> Any:
    kind: Any = origin or hint
    if _fields(kind) is not None or not isinstance(kind, type) or not issubclass(kind, Iterable):
        return NOTHING
    if issubclass(kind, tuple) and args and args[-1] is not Ellipsis:
        made = [filled(each, item) for each, item in zip(args, items, strict=False)]
    else:
        made = [filled(args[0], item) for item in items] if args else items
    made = [item for item in made if item is not NOTHING]
    try:
        return _COLLECTIONS.get(kind, list)(made)
    except TypeError:  # an item without a hash
        return NOTHING


_COLLECTIONS: dict[Any, Callable[[list[Any]], Any]] = {
    tuple: tuple,
    set: set,
    frozenset: frozenset,
}


def _of_object(hint: Any, origin: Any, args: tuple[Any, ...], values: dict[str, Any]) -> Any:
    kind = origin or hint
    fields = _fields(kind)
    if fields is None:
        if not isinstance(kind, type) or not issubclass(kind, Mapping):
            return NOTHING
        if len(args) != 2:
            return values
        made = {name: filled(args[1], value) for name, value in values.items()}
        return {name: value for name, value in made.items() if value is not NOTHING}
    return _object_of(kind, fields, _given(fields, values))


def _given(
    fields: "Mapping[str, _ObjectField] | None", values: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields that have a value so far."""
    return {
        field.name: made
        for name, field in (fields or {}).items()
        if name in values and (made := filled(field.hint, values[name])) is not NOTHING
    }


class _ObjectField(typing.NamedTuple):
    name: str
    hint: Any
    default: Callable[[], Any]
    """Makes the value of the field while it is missing."""


@functools.lru_cache(256)
def _fields(kind: Any) -> dict[str, _ObjectField] | None:
    """The fields of a type of objects by their JSON names; None for any other type."""
    if not isinstance(kind, type):
        return None
    kind = cast("type[Any]", kind)
    if issubclass(kind, BaseModel):
        return {
            field.alias or name: _ObjectField(name, field.annotation, _model_default(field))
            for name, field in kind.model_fields.items()
        }
    if is_typeddict(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        return {name: _ObjectField(name, hint, _no_value) for name, hint in hints.items()}
    if issubclass(kind, msgspec.Struct):
        return {
            field.encode_name: _ObjectField(field.name, field.type, _struct_default(field))
            for field in msgspec.structs.fields(kind)
        }
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        return {
            field.name: _ObjectField(field.name, hints[field.name], _dataclass_default(field))
            for field in dataclasses.fields(kind)
        }
    return None


def _no_value() -> Any:
    return NOTHING


def _none() -> None:
    return None


def _model_default(field: FieldInfo) -> Callable[[], Any]:
    if field.is_required() or field.default_factory_takes_validated_data:
        return _none
    return functools.partial(field.get_default, call_default_factory=True)


def _struct_default(field: Any) -> Callable[[], Any]:
    if field.default_factory is not msgspec.NODEFAULT:
        return cast("Callable[[], Any]", field.default_factory)
    return _none if field.default is msgspec.NODEFAULT else lambda: field.default


def _dataclass_default(field: "dataclasses.Field[Any]") -> Callable[[], Any]:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    return _none if field.default is dataclasses.MISSING else lambda: field.default


def _object_of(kind: type[Any], fields: Mapping[str, _ObjectField], given: dict[str, Any]) -> Any:
    values = {
        field.name: value
        for field in fields.values()
        if (value := given[field.name] if field.name in given else field.default()) is not NOTHING
    }
    if issubclass(kind, BaseModel):
        return kind.model_construct(set(given), **values)
    if is_typeddict(kind):
        return values
    if issubclass(kind, msgspec.Struct):
        try:
            return kind(**values)
        except Exception:  # noqa: BLE001 - its `__post_init__` may need what is not there yet
            return NOTHING
    # Without the constructor, which may check fields that are still missing.
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


@functools.lru_cache(256)
def _adapter(hint: Any) -> TypeAdapter[Any] | None:
    try:
        return TypeAdapter(hint)
    except Exception:  # noqa: BLE001 - pydantic raises many kinds; the value then waits
        return None


def _leaf(hint: Any, value: Any) -> Any:
    if hint is type(value):
        return value
    adapter = _adapter(hint)
    if adapter is None:
        return NOTHING
    try:
        return adapter.validate_python(value)
    except (ValidationError, TypeError):
        return NOTHING
