"""definition"""

import difflib
import functools
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    overload,
)

import msgspec
from msgspec import Struct

from windlass.content import Declaration, FunctionDeclaration, GoogleSearch, Schema, no_parameters
from windlass.errors import ConfigError, DuplicateTool
from windlass.tool.declarations import (
    SEARCH_NAME,
    check_name,
    declarations_in,
    in_json_schema,
    one_declaration,
    plain_fields,
)
from windlass.tool.signature import (
    AnyCallable,
    Depends,
    Signature,
    by_keyword,
    hint_names,
    is_async,
    signature_of,
)

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
else:  # at runtime the defaults mean nothing
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")


Q = ParamSpec("Q")


OnInterrupt = Literal["tell_model", "retry", "fail"]
"""What becomes of a call that had begun when its process ended, so that its effect is unknown."""


class ToolOptions(Struct, frozen=True, kw_only=True):
    """How a tool wants to be run."""

    timeout: float | None = None
    """Seconds that one call may take."""
    idempotent: bool = False
    """Running it twice does no harm: it may start early and be tried again."""
    cache: float | None = None
    """Seconds for which an answer to the same arguments is good."""
    serial: bool = False
    """Runs alone, never beside another call."""
    approve: bool = False
    """Each call needs somebody's yes."""
    after: tuple[str, ...] = ()
    """Tools whose calls of the same round must be done first."""
    retries: int = 2
    """How often a failed call is tried again; only if it is idempotent."""
    on_interrupt: OnInterrupt | None = None
    """What becomes of a call that the end of the process cut off, if not what the run says."""
    expose_errors: bool | None = None
    """Whether the model reads the text of an exception that is not `ToolError`; None leaves it to
    the run."""

    def __post_init__(self) -> None:
        for name, value in (("timeout", self.timeout), ("cache", self.cache)):
            if value is not None and (isinstance(value, bool) or not value > 0):
                raise ConfigError(f"{name} is a number of seconds above 0, not {value!r}")
        if self.retries < 0:
            raise ConfigError(f"retries cannot be negative: {self.retries}")
        if self.on_interrupt not in (None, *get_args(OnInterrupt)):
            raise ConfigError(
                f"on_interrupt must be 'tell_model', 'retry' or 'fail', not {self.on_interrupt!r}"
            )


class Arguments(Protocol):
    """Turns the model's argument text into values for the function."""

    @property
    def schema(self) -> Schema: ...

    def validate(self, json_text: str) -> dict[str, Any]: ...


class Tool(Generic[P, R]):
    """A declaration, and the function that answers its calls, if there is one.

    It can still be called as the plain function that it was made from.
    """

    def __init__(
        self,
        declaration: Declaration | None = None,
        function: Callable[P, R] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        options: ToolOptions = ToolOptions(),  # noqa: B008  it is frozen
        scope: Mapping[str, Any] | None = None,
    ) -> None:
        """Without a declaration, it is read from the function when it is first asked for.

        `scope` has local names that the function's type hints use. Raises `ConfigError` for a name
        that providers refuse, for a function that cannot be a tool, and for parameters that are no
        JSON Schema.
        """
        self._static = isinstance(function, staticmethod)
        original: Any = getattr(function, "__func__", None) if self._static else function
        self._original = cast("Callable[P, R] | None", original)
        self._description = description and inspect.cleandoc(description)
        self._scope = scope
        self.name = check_name(name or _declared_name(declaration) or name_of(original))
        self._given = _checked(declaration, runs=original is not None)
        self.options = options
        self.is_async = original is not None and is_async(original)
        if original is not None:
            _refuse_generator(self.name, original)
            self.__name__ = self.name
            self.__doc__ = original.__doc__
            self.__wrapped__ = original

    @classmethod
    def from_declaration(
        cls,
        declaration: Declaration | Mapping[str, Any] | object,
        function: Callable[..., Any] | None = None,
        **options: Any,
    ) -> "Tool":
        """A declared tool; the options are those of `ToolOptions`. Raises `ConfigError`."""
        return Tool(one_declaration(declaration), function, options=ToolOptions(**options))

    @property
    def runnable(self) -> bool:
        """False for a tool that is only declared: its calls are handed back to the caller."""
        return self._original is not None

    @cached_property
    def declaration(self) -> Declaration:
        """What the model is told. Raises `ConfigError` when the signature has no JSON Schema."""
        match self._given:
            case GoogleSearch() as search:
                return search
            case FunctionDeclaration() as given:
                said = given.description if self._description is None else self._description
                return msgspec.structs.replace(given, name=self.name, description=said)
            case None:
                said = self._description
                said = self._signature.docstring.description if said is None else said
                return FunctionDeclaration(self.name, said, self._arguments.schema)

    @cached_property
    def function(self) -> AnyCallable | None:
        """What answers a call: takes the validated arguments and the injected ones by keyword."""
        return None if self._original is None else by_keyword(self._original, self._signature)

    @property
    def dependencies(self) -> Mapping[str, Depends]:
        """The parameters that are injected."""
        return self._signature.dependencies

    @property
    def context_parameter(self) -> str | None:
        """The parameter that takes the `ToolContext`."""
        return self._signature.context_parameter

    def validate(self, json_text: str) -> dict[str, Any]:
        """The keyword arguments that the model's text stands for, as the types that were asked for.

        Raises `InvalidArguments`, whose text names each field and what was expected.
        """
        return self._arguments.validate(json_text)

    def replace(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        options: ToolOptions | None = None,
    ) -> "Tool[P, R]":
        """The same tool under another name, told in other words or run in another way."""
        return Tool(
            self._given,
            self._original,
            name=name or self.name,
            description=self._description if description is None else description,
            options=options or self.options,
            scope=self._scope,
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._original is None:
            raise TypeError(f"{self.name} is only declared: there is no function to call")
        return self._original(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type, /) -> "Tool[P, R]": ...
    @overload
    def __get__(
        self: "Tool[Concatenate[Any, Q], R]", instance: object, owner: type | None = None, /
    ) -> "Tool[Q, R]": ...
    def __get__(self, instance: Any, owner: type | None = None, /) -> "Tool[..., R]":
        """A tool in a class body binds as the function would."""
        original: Any = self._original
        if isinstance(original, classmethod):
            bound: Any = cast("Any", original).__get__(instance, owner)
        elif instance is None or self._static or not isinstance(original, types.FunctionType):
            return self
        else:
            bound = types.MethodType(original, instance)
        return Tool(
            self._given,
            bound,
            name=self.name,
            description=self._description,
            options=self.options,
            scope=self._scope,
        )

    # A bound method is a new tool each time it is looked up; cached answers belong to equal ones.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tool):
            return NotImplemented
        return self is other or self._identity == cast("Tool", other)._identity

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @property
    def _identity(self) -> tuple[Any, ...]:
        return (self.name, self._original, self._description, self.options, id(self._given))

    @cached_property
    def _signature(self) -> Signature:
        if self._original is None:
            return Signature()
        return signature_of(self._original, self._scope)

    @cached_property
    def _arguments(self) -> Arguments:
        if self._given is None:
            return _signed_arguments(self.name, self._signature)
        from windlass.tool.arguments.by_schema import DeclaredArguments

        given = self._given
        parameters = no_parameters() if isinstance(given, GoogleSearch) else given.parameters
        # Without a function nothing is known of what it would refuse.
        takes_any = self._original is None or self._signature.open
        return DeclaredArguments(self.name, parameters, open=takes_any)


_signed: weakref.WeakKeyDictionary[Signature, Arguments] = weakref.WeakKeyDictionary()
_alike: dict[Any, Arguments] = {}
_MOST_ALIKE = 500


def _signed_arguments(name: str, signature: Signature) -> Arguments:
    """Built once for a signature, which lives as long as its function, and for others like it."""
    if (known := _signed.get(signature)) is not None:
        return known
    try:
        built = _alike.get(signature.shape)
    except TypeError:  # a default or a hint without a hash
        built = _build_arguments(name, signature)
    else:
        if built is None:
            if len(_alike) >= _MOST_ALIKE:
                _alike.clear()
            built = _alike[signature.shape] = _build_arguments(name, signature)
    _signed[signature] = built
    return built


def _build_arguments(name: str, signature: Signature) -> Arguments:
    from windlass.tool.arguments.by_signature import SignedArguments

    return SignedArguments(name, signature)


def name_of(function: AnyCallable | None) -> str:
    """The name that a function gives its tool. Raises `ConfigError` if it has none."""
    while isinstance(function, functools.partial):
        function = cast("AnyCallable", function.func)
    if function is None:
        raise ConfigError("a tool needs a declaration or a function")
    name = getattr(function, "__name__", None) or type(function).__name__
    if name == "<lambda>":
        raise ConfigError("a lambda has no name: give it one with tool(..., name='...')")
    return name


def _checked(given: Declaration | None, *, runs: bool) -> Declaration | None:
    """The declaration in plain JSON Schema. Raises `InvalidSchema`."""
    if not isinstance(given, FunctionDeclaration):
        return given
    checked = in_json_schema(given)
    assert isinstance(checked, FunctionDeclaration)
    if checked.parameters != no_parameters():
        # Imported here: it weighs more than everything that a function's own tool needs.
        from windlass.tool.arguments.by_schema import check_parameters

        check_parameters(checked.name, checked.parameters, runs=runs)
    return checked


def _declared_name(declaration: Declaration | None) -> str | None:
    match declaration:
        case FunctionDeclaration(name=name):
            return name
        case GoogleSearch():
            return SEARCH_NAME
        case None:
            return None


def _refuse_generator(name: str, function: AnyCallable) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"{name}: a generator cannot be a tool; return the result, and report on the way with"
            " ToolContext.progress"
        )


Earlier: TypeAlias = str | AnyCallable | Tool
"""A tool that must come first: itself, its function or its name."""


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    idempotent: bool = False,
    cache: float | None = None,
    serial: bool = False,
    approve: bool = False,
    after: Iterable[Earlier] = (),
    retries: int = 2,
    on_interrupt: OnInterrupt | None = None,
    expose_errors: bool | None = None,
) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    idempotent: bool = False,
    cache: float | None = None,
    serial: bool = False,
    approve: bool = False,
    after: Iterable[Earlier] = (),
    retries: int = 2,
    on_interrupt: OnInterrupt | None = None,
    expose_errors: bool | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: AnyCallable | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    after: Iterable[Earlier] = (),
    **options: Any,
) -> Any:
    """Makes a function a tool: `@tool` alone, with options, or `tool(function, ...)`.

    The options are those of `ToolOptions`; `after` takes tools, functions and names. Raises
    `ConfigError` for a name that providers refuse and for options that make no sense.
    """
    for option in options:
        if option not in ToolOptions.__struct_fields__:
            raise ConfigError(f"@tool has no option {option!r}{_hint(option)}")
    chosen = ToolOptions(after=_names(after), **options)

    def decorate(function: AnyCallable, around: types.FrameType | None = None) -> Tool:
        if isinstance(function, Tool):
            made = cast("Tool", function)
            return made.replace(name=name, description=description, options=chosen)
        scope = _local_names(function, around or sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
        return Tool(None, function, name=name, description=description, options=chosen, scope=scope)

    if function is None:
        return decorate
    return decorate(function, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]


RENAMED = {
    "requires_approval": "approve",
    "needs_approval": "approve",
    "require_confirmation": "approve",
    "approval": "approve",
    "max_retries": "retries",
    "retry": "retries",
    "ttl": "cache",
    "cache_ttl": "cache",
    "timeout_seconds": "timeout",
    "depends_on": "after",
    "exclusive": "serial",
    "show_errors": "expose_errors",
}
"""What other libraries call an option of a tool, and what it is called here."""


def _hint(option: str) -> str:
    known = [*ToolOptions.__struct_fields__, "name", "description"]
    near = difflib.get_close_matches(option, known, n=1)
    meant = RENAMED.get(option) or (near[0] if near else None)
    return f"; did you mean {meant!r}?" if meant else ""


def _names(after: Iterable[Earlier]) -> tuple[str, ...]:
    return tuple(
        item if isinstance(item, str) else item.name if isinstance(item, Tool) else name_of(item)
        for item in ((after,) if isinstance(after, str) else after)
    )


def _local_names(function: AnyCallable, around: types.FrameType) -> dict[str, Any] | None:
    """What the type hints, while they are text, need of the names around the function."""
    if around.f_locals is around.f_globals or not (names := hint_names(function)):
        return None
    known = around.f_locals
    return {name: known[name] for name in names if name in known}


def as_tools(items: Iterable[Any]) -> list[Tool]:
    """What users put in `tools=[...]`, as tools.

    Raises `DuplicateTool` for two of one name, and `ConfigError` for what cannot be a tool.
    """
    whole: Any = items
    if isinstance(whole, (str, Mapping, Tool)) or not isinstance(whole, Iterable):
        raise ConfigError(f"tools must be a list: write [...] around {whole!r}")
    return checked(tool for item in items for tool in _tools_of(item))


def checked(tools: Iterable[Tool]) -> list[Tool]:
    """The tools, if they go together. Raises `DuplicateTool`, and `ConfigError` for a circle."""
    known: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in known:
            raise DuplicateTool(f"two tools are named {tool.name!r}")
        known[tool.name] = tool
    if any(tool.options.after for tool in known.values()):
        for name in known:
            _refuse_circle(name, known, ())
    return list(known.values())


def _tools_of(item: Any) -> Iterable[Tool]:
    match item:
        case Tool():
            return (cast("Tool", item),)
        # Since Python 3.13 a classmethod over a tool gives a method around it.
        case types.MethodType() if isinstance(item.__func__, Tool):
            return (cast("Tool", item.__func__).__get__(item.__self__),)
        case FunctionDeclaration() | GoogleSearch():
            return (Tool(item),)
        case Mapping():
            declarations = declarations_in(cast("Mapping[str, Any]", item))
            return [Tool(declaration) for declaration in declarations]
        case type():
            name = item.__qualname__
            raise ConfigError(f"not a tool: the class {name}; give an instance or a method of it")
        case _ if callable(item):
            return (Tool(None, item),)
        case _ if (fields := plain_fields(item)) is not None:  # google-genai's, or the MCP SDK's
            return [Tool(declaration) for declaration in declarations_in(fields)]
        case _:
            raise ConfigError(f"not a tool: {item!r} ({type(item).__name__})")


def _refuse_circle(name: str, tools: Mapping[str, Tool], path: tuple[str, ...]) -> None:
    if name in path:
        circle = " after ".join((*path[path.index(name) :], name))
        raise ConfigError(f"these tools wait for each other: {circle}")
    for earlier in tools[name].options.after:
        if earlier in tools:
            _refuse_circle(earlier, tools, (*path, name))
