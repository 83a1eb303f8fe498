"""Type hints made ready: text becomes types, and types become ones that pydantic takes."""

import sys
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, cast, get_args, get_origin

import typing_extensions

__all__ = [
    "described_by",
    "hint_names",
    "metadata_of",
    "namespace_of",
    "resolved_hint",
    "unpacked_fields",
]

_PYDANTIC_TAKES_TYPED_DICTS = sys.version_info >= (3, 12)


def namespace_of(function: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """The globals of a function and the names of its closure: what its hints, as text, refer to."""
    code = getattr(function, "__code__", None)
    names: tuple[str, ...] = getattr(code, "co_freevars", ())
    local: dict[str, Any] = {}
    for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        try:
            local[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for parameter in getattr(function, "__type_params__", ()):
        local[parameter.__name__] = parameter
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    return getattr(function, "__globals__", None) or (vars(module) if module else {}), local


def hint_names(function: object) -> set[str]:
    """The names inside those hints that are text, as under `from __future__ import annotations`."""
    names: set[str] = set()
    for hint in getattr(function, "__annotations__", {}).values():
        if isinstance(hint, str):
            names.update(_identifiers(hint))
    return names


def _identifiers(text: str) -> set[str]:
    try:
        return set(compile(text.strip(), "<hint>", "eval").co_names)
    except SyntaxError:
        return set()


def resolved_hint(hint: Any, global_names: dict[str, Any], local_names: Mapping[str, Any]) -> Any:
    """The hint as a type, its `Annotated` metadata kept. Raises `NameError` for unknown names."""
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    hints = typing.get_type_hints(holder, global_names, dict(local_names), include_extras=True)
    resolved = hints["hint"]
    return resolved if _PYDANTIC_TAKES_TYPED_DICTS else _with_portable_typed_dicts(resolved, {})


def metadata_of(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """The bare type and what `Annotated` says about it."""
    if get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__
    return hint, ()


def described_by(hint: Any) -> str | None:
    """The description in `Annotated[T, "description"]`, or in PEP 727's `Doc`."""
    for item in metadata_of(hint)[1]:
        said = item if isinstance(item, str) else getattr(item, "documentation", None)
        if isinstance(said, str):
            return said
    return None


def unpacked_fields(hint: Any) -> dict[str, tuple[Any, bool]] | None:
    """For `**kwargs: Unpack[SomeTypedDict]`: each field's type and whether it is required."""
    if get_origin(hint) not in (typing.Unpack, typing_extensions.Unpack):
        return None
    (fields,) = get_args(hint)
    hints = typing_extensions.get_type_hints(fields, include_extras=True)
    return {
        name: (_without_qualifiers(hint), name in fields.__required_keys__)
        for name, hint in hints.items()
    }


def _without_qualifiers(hint: Any) -> Any:
    while get_origin(hint) in _QUALIFIERS:
        (hint,) = get_args(hint)
    return hint


_QUALIFIERS = (
    typing.Required,
    typing.NotRequired,
    typing_extensions.Required,
    typing_extensions.NotRequired,
    typing_extensions.ReadOnly,
)


# Python 3.11: pydantic refuses its `typing.TypedDict` and takes the backport's, so each is copied.


def _with_portable_typed_dicts(hint: Any, done: dict[Any, Any]) -> Any:
    if typing.is_typeddict(hint) and type(hint).__module__ == "typing":
        return done[hint] if hint in done else _portable_typed_dict(hint, done)
    arguments = get_args(hint)
    replaced = tuple(_with_portable_typed_dicts(argument, done) for argument in arguments)
    if all(new is old for new, old in zip(replaced, arguments, strict=True)):
        return hint
    if isinstance(hint, types.UnionType):
        return typing.Union[replaced]  # noqa: UP007
    if get_origin(hint) is Annotated:
        return Annotated[(replaced[0], *hint.__metadata__)]
    if get_origin(hint) in _QUALIFIERS or not hasattr(hint, "copy_with"):
        return get_origin(hint)[replaced]
    return hint.copy_with(replaced)


def _portable_typed_dict(kind: Any, done: dict[Any, Any]) -> Any:
    empty: dict[str, Any] = {}
    copy = cast("Any", typing_extensions.TypedDict)(kind.__name__, empty)
    done[kind] = copy  # before its fields, which may name it again
    hints = typing.get_type_hints(kind, include_extras=True)
    copy.__annotations__ = {
        name: _with_portable_typed_dicts(_without_qualifiers(hint), done)
        for name, hint in hints.items()
    }
    copy.__required_keys__ = kind.__required_keys__
    copy.__optional_keys__ = kind.__optional_keys__
    copy.__doc__ = kind.__doc__
    copy.__module__ = kind.__module__
    copy.__qualname__ = kind.__qualname__
    return copy
