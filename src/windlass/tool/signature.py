"""The signature of a function: its parameters, type hints, docstring and injected values.

`Depends` and `ToolContext` are the types of injected parameters, which the model does not see.
"""

import contextlib
import functools
import inspect
import sys
import types
import typing
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Protocol, TypeAlias, cast, get_args, get_origin

import typing_extensions

from windlass.content import FunctionCall
from windlass.errors import ConfigError
from windlass.tool.docstrings import Docstring, parse_docstring

Report = Callable[[float | None, str | None, Any], None]


class ApprovalOutcome(Protocol):
    """The answer to a request for approval: the fields of `Approval` that a tool needs."""

    @property
    def approved(self) -> bool: ...
    @property
    def arguments(self) -> dict[str, Any] | None: ...
    @property
    def reason(self) -> str | None: ...


Ask = Callable[[FunctionCall], Awaitable[ApprovalOutcome]]


@dataclass(frozen=True, slots=True)
class Depends:
    """Injects a value: in `Annotated[T, Depends(function)]`, the function returns the value.

    The model does not see the parameter. The function is called once in each run. It may be sync or
    async, have `Depends` parameters of its own, and be a generator: the code after its `yield` runs
    at the end of the run.
    """

    function: Callable[..., Any]


def _ignore_progress(progress: float | None, message: str | None, data: Any) -> None:
    """Ignores progress, as in a direct call."""


@dataclass(frozen=True, slots=True)
class _Denied:
    approved: bool = False
    arguments: dict[str, Any] | None = None
    reason: str | None = "no approver is available"


async def _deny(call: FunctionCall) -> ApprovalOutcome:
    """Denies every call, as in a direct call, which has no approver."""
    return _Denied()


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The running call. The model does not see a parameter of this type."""

    run_id: str = ""
    call_id: str = ""
    round: int = 1
    name: str = ""
    deadline: float | None = None
    """When the call times out, as a time of `time.monotonic`; None means no limit."""
    report: Report = field(default=_ignore_progress, repr=False)
    ask: Ask = field(default=_deny, repr=False)
    """Asks the run's approver while this call runs. The approver sees the given call, which needs
    its own id."""

    @property
    def call_key(self) -> str:
        """A key that is unique for each call in all runs: use it as an idempotency key."""
        return f"{self.run_id}:{self.call_id}"

    def progress(
        self, progress: float | None = None, message: str | None = None, data: Any = None
    ) -> None:
        """Reports progress to the run's subscribers. May be called from any thread."""
        self.report(progress, message, data)


_PYDANTIC_ACCEPTS_TYPED_DICTS = sys.version_info >= (3, 12)


def namespace_of(function: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the globals and the closure's names, which hints that are strings refer to."""
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
    """Returns the names in hints that are strings, as with `from __future__ import annotations`."""
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
    """Returns the hint as a type, with its `Annotated` metadata. Raises `NameError`."""
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    hints = typing.get_type_hints(holder, global_names, dict(local_names), include_extras=True)
    resolved = hints["hint"]
    return resolved if _PYDANTIC_ACCEPTS_TYPED_DICTS else _with_portable_typed_dicts(resolved, {})


def metadata_of(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Returns the bare type and its `Annotated` metadata."""
    if get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__
    return hint, ()


def described_by(hint: Any) -> str | None:
    """Returns the description in `Annotated[T, "description"]` or in PEP 727's `Doc`."""
    for item in metadata_of(hint)[1]:
        text = item if isinstance(item, str) else getattr(item, "documentation", None)
        if isinstance(text, str):
            return text
    return None


def unpacked_fields(hint: Any) -> dict[str, tuple[Any, bool]] | None:
    """Returns each field's type, and whether it is required, of `Unpack[SomeTypedDict]`."""
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


def _with_portable_typed_dicts(hint: Any, done: dict[Any, Any]) -> Any:
    """Replaces `typing.TypedDict` with the backport's, which pydantic needs on Python 3.11."""
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
    done[kind] = copy  # before its fields, which may refer to it
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


AnyCallable: TypeAlias = Callable[..., Any]
MISSING: Final = inspect.Parameter.empty
"""The annotation or default of a parameter without one."""
_NO_DOCSTRING: Final = Docstring("", {})


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that the model fills."""

    name: str
    hint: Any = MISSING
    default: Any = MISSING
    optional: bool = False
    """Whether it may be omitted without a default: a field of an unpacked TypedDict."""

    @property
    def required(self) -> bool:
        return self.default is MISSING and not self.optional


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Signature:
    """The parameters of a callable, by who provides them, and its docstring."""

    parameters: tuple[Parameter, ...] = ()
    dependencies: Mapping[str, Depends] = field(default_factory=dict[str, Depends])
    context_parameter: str | None = None
    hidden: frozenset[str] = frozenset()
    """Names that the model must not use: injected, or bound by a partial."""
    extras: Any = MISSING
    """The type of the values of `**kwargs`; `MISSING` without `**kwargs`."""
    positional_only: tuple[inspect.Parameter, ...] = ()
    docstring: Docstring = _NO_DOCSTRING

    @property
    def shape(self) -> tuple[Any, ...]:
        """A value that is equal for functions with the same arguments, such as two closures.

        It includes the types of the defaults, because 1, 1.0 and True are equal.
        """
        kinds: list[Any] = [type(each.default) for each in self.parameters]
        descriptions = tuple(self.docstring.parameters.items())
        return (self.parameters, *kinds, self.hidden, self.extras, descriptions)

    @property
    def open(self) -> bool:
        """Whether the callable accepts arguments of any name."""
        return self.extras is not MISSING


# Each run may get the same plain function: its signature is cached as long as it exists.
_signatures: weakref.WeakKeyDictionary[Any, dict[bool, Signature]] = weakref.WeakKeyDictionary()


def signature_of(function: AnyCallable, scope: Mapping[str, Any] | None = None) -> Signature:
    """Returns the callable's signature. `scope` has further names that its hints use.

    Raises `ConfigError` if a type cannot be resolved or the callable cannot be inspected.
    """
    key, bound = _identity(function)
    try:
        return _signatures[key][bound]
    except (KeyError, TypeError):
        signature = _read(function, scope or {})
    with contextlib.suppress(TypeError):  # no weak references to it, or no hash
        _signatures.setdefault(key, {})[bound] = signature
    return signature


def _identity(function: AnyCallable) -> tuple[Any, bool]:
    """Returns the key of the cached signature: methods of all instances share one."""
    if isinstance(function, types.MethodType):
        return function.__func__, True
    call = type(function).__call__
    if isinstance(call, types.FunctionType) and not hasattr(function, "__wrapped__"):
        return call, True
    return function, False


def _is_partial(function: AnyCallable) -> bool:
    return isinstance(function, functools.partial)


def _is_builtin(function: AnyCallable) -> bool:
    return isinstance(function, (types.BuiltinFunctionType, types.MethodWrapperType))


def underlying(function: AnyCallable) -> AnyCallable:
    """Returns the plain function inside a method, a partial, a wrapper or a callable object."""
    while True:
        if isinstance(function, functools.partial):
            function = cast("AnyCallable", function.func)
        elif isinstance(function, types.MethodType):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = cast("Any", function).__wrapped__
        elif isinstance(function, (types.FunctionType, type)) or _is_builtin(function):
            return function
        elif isinstance(call := type(function).__call__, types.FunctionType):
            function = call
        else:
            return function


def is_async(function: AnyCallable) -> bool:
    """Whether a call returns a coroutine, also through methods, partials and `__call__`."""
    if inspect.iscoroutinefunction(function):
        return True
    if isinstance(function, types.FunctionType):
        return False
    while isinstance(function, functools.partial):
        function = cast("AnyCallable", function.func)
    return inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def by_keyword(function: AnyCallable, signature: Signature) -> AnyCallable:
    """Returns a function that accepts all arguments by keyword."""
    if not (positional := signature.positional_only):
        return function

    def called_by_keyword(**arguments: Any) -> Any:
        given: list[Any] = []
        for parameter in positional:
            if parameter.name not in arguments and parameter.default is MISSING:
                break
            given.append(arguments.pop(parameter.name, parameter.default))
        return function(*given, **arguments)

    return called_by_keyword


def _read(function: AnyCallable, scope: Mapping[str, Any]) -> Signature:
    name = getattr(function, "__name__", None) or repr(function)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}: cannot read the signature ({error})") from error
    bound: Mapping[str, Any] = getattr(function, "keywords", {}) if _is_partial(function) else {}
    reader = _SignatureReader(name, underlying(function), scope)
    for parameter in parameters.values():
        if parameter.name in bound:
            reader.hidden.add(parameter.name)
        else:
            reader.add(parameter)
    return reader.signature(function)


class _SignatureReader:
    """Reads the parameters of one callable."""

    def __init__(self, name: str, function: AnyCallable, scope: Mapping[str, Any]) -> None:
        self._name = name
        self._globals, closure = namespace_of(function)
        self._locals = {**closure, **scope}
        self._parameters: list[Parameter] = []
        self._dependencies: dict[str, Depends] = {}
        self._context: str | None = None
        self._extras: Any = MISSING
        self._positional_only: list[inspect.Parameter] = []
        self.hidden: set[str] = set()

    def add(self, parameter: inspect.Parameter) -> None:
        # Arguments of *args have no names, so a model cannot use them.
        if parameter.kind is parameter.VAR_POSITIONAL:
            return
        hint = self._hint(parameter)
        if parameter.kind is parameter.VAR_KEYWORD:
            self._add_extras(hint)
            return
        if parameter.kind is parameter.POSITIONAL_ONLY:
            self._positional_only.append(parameter)
        if isinstance(parameter.default, Depends):
            raise ConfigError(
                f"{self._name}: write {parameter.name}: Annotated[..., Depends(...)],"
                " not a default of Depends(...)"
            )
        depends = [item for item in metadata_of(hint)[1] if isinstance(item, Depends)]
        if depends:
            self._dependencies[parameter.name] = depends[0]
        elif _is_context(hint):
            self._context = parameter.name
        else:
            self._parameters.append(Parameter(parameter.name, hint, parameter.default))
            return
        self.hidden.add(parameter.name)

    def signature(self, function: AnyCallable) -> Signature:
        return Signature(
            tuple(self._parameters),
            self._dependencies,
            self._context,
            frozenset(self.hidden),
            self._extras,
            tuple(self._positional_only),
            _docstring_of(function),
        )

    def _add_extras(self, hint: Any) -> None:
        fields = unpacked_fields(hint)
        if fields is None:
            self._extras = Any if hint is MISSING else hint
            return
        self._parameters.extend(
            Parameter(name, kind, optional=not required)
            for name, (kind, required) in fields.items()
        )

    def _hint(self, parameter: inspect.Parameter) -> Any:
        if parameter.annotation is MISSING:
            return MISSING
        try:
            return resolved_hint(parameter.annotation, self._globals, self._locals)
        except (NameError, AttributeError, TypeError, SyntaxError) as error:
            raise ConfigError(
                f"{self._name}: cannot resolve the type {parameter.annotation!r} of"
                f" {parameter.name!r} ({error}); define its names where the function is defined"
            ) from error


def _is_context(hint: Any) -> bool:
    bare = metadata_of(hint)[0]
    if get_origin(bare) in (typing.Union, types.UnionType):
        return any(metadata_of(option)[0] is ToolContext for option in get_args(bare))
    return bare is ToolContext


def _docstring_of(function: AnyCallable) -> Docstring:
    """Returns the docstring, for a callable object from its `__call__` or its class."""
    inner = underlying(function)
    own = parse_docstring(inner.__doc__)
    holder = function
    while isinstance(holder, functools.partial):
        holder = cast("AnyCallable", holder.func)
    if getattr(inner, "__name__", "") != "__call__" or isinstance(holder, types.FunctionType):
        return own
    outer = parse_docstring(type(holder).__doc__)
    return Docstring(own.description or outer.description, {**outer.parameters, **own.parameters})
