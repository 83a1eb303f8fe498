"""`Tool`, the decorator `@tool`, and `as_tools`, which reads the tools that users list."""

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

from windlass.content import (
    Declaration,
    FunctionDeclaration,
    GoogleSearch,
    ProviderTool,
    Schema,
    no_parameters,
)
from windlass.errors import ConfigError, DuplicateTool
from windlass.tool.declarations import (
    SEARCH_NAME,
    attributes_of,
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
else:  # the defaults have no meaning at runtime
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")


Q = ParamSpec("Q")


OnInterrupt = Literal["tell_model", "retry", "fail"]
"""What to do with a call that was running when its process exited: its effect is unknown."""


class ToolOptions(Struct, frozen=True, kw_only=True):
    """How a tool is run."""

    timeout: float | None = None
    """Seconds that one call may take."""
    idempotent: bool = False
    """A repeated call does no harm: it may start early and be retried."""
    cache: float | None = None
    """Seconds for which a result is reused for the same arguments."""
    serial: bool = False
    """Never runs at the same time as another call."""
    approve: bool = False
    """Each call needs an approval."""
    after: tuple[str, ...] = ()
    """Tools whose calls of the same round must finish first."""
    retries: int = 2
    """How often to retry a failed call; only if it is idempotent."""
    on_interrupt: OnInterrupt | None = None
    """What to do with an interrupted call; None means the run's setting."""
    expose_errors: bool | None = None
    """Whether the model sees the text of an exception that is not a `ToolError`; None means the
    run's setting."""

    def __post_init__(self) -> None:
        for name, value in (("timeout", self.timeout), ("cache", self.cache)):
            if value is not None and (isinstance(value, bool) or not value > 0):
                raise ConfigError(f"{name} must be a number of seconds above 0, not {value!r}")
        if self.retries < 0:
            raise ConfigError(f"retries must be 0 or more, not {self.retries}")
        if self.on_interrupt not in (None, *get_args(OnInterrupt)):
            raise ConfigError(
                f"on_interrupt must be 'tell_model', 'retry' or 'fail', not {self.on_interrupt!r}"
            )


class Arguments(Protocol):
    """Validates the model's argument text."""

    @property
    def schema(self) -> Schema: ...

    def validate(self, json_text: str) -> dict[str, Any]: ...


class Tool(Generic[P, R]):
    """A declaration, and the function that runs its calls, if there is one.

    A tool can be called like the function that it was made from.
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
        """Creates a tool. Without a declaration, the function's signature is read when needed.

        `scope` has the local names that the function's type hints use. Raises `ConfigError` for a
        name that providers refuse, for a function that cannot be a tool, and for parameters that
        are not a JSON Schema.
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
        """Creates a tool from a declaration and `ToolOptions`. Raises `ConfigError`."""
        return Tool(one_declaration(declaration), function, options=ToolOptions(**options))

    @classmethod
    def from_snakepit_tool(
        cls,
        spec: Mapping[str, Any] | object,
        function: Callable[..., Any] | None = None,
        **options: Any,
    ) -> "Tool":
        """Creates a tool from a specification of Snakepit: `name`, `description`, `parameters`.

        It is a mapping or an object. The parameters are a list, each with `name`, `type`,
        `description`, `required` and `default`, or a JSON Schema. Raises `ConfigError` for
        anything else.
        """
        fields = attributes_of(spec, ("name", "description", "parameters"))
        if fields is None:
            raise ConfigError(f"not a tool specification: {spec!r:.120}")
        return cls.from_declaration(fields, function, **options)

    @property
    def runnable(self) -> bool:
        """False for a tool without a function: its calls are returned to the caller."""
        return self._original is not None

    @cached_property
    def declaration(self) -> Declaration:
        """What the model sees. Raises `ConfigError` if the signature has no JSON Schema."""
        match self._given:
            case GoogleSearch() | ProviderTool() as marker:
                return marker
            case FunctionDeclaration() as given:
                text = given.description if self._description is None else self._description
                return msgspec.structs.replace(given, name=self.name, description=text)
            case None:
                text = self._description
                text = self._signature.docstring.description if text is None else text
                return FunctionDeclaration(self.name, text, self._arguments.schema)

    @cached_property
    def function(self) -> AnyCallable | None:
        """The function to run: it takes validated and injected arguments by keyword."""
        return None if self._original is None else by_keyword(self._original, self._signature)

    @property
    def dependencies(self) -> Mapping[str, Depends]:
        """The injected parameters."""
        return self._signature.dependencies

    @property
    def context_parameter(self) -> str | None:
        """The name of the parameter for the `ToolContext`."""
        return self._signature.context_parameter

    def validate(self, json_text: str) -> dict[str, Any]:
        """Returns the keyword arguments in the model's text, converted to the declared types.

        Raises `InvalidArguments`, whose text names each wrong field and the expected value.
        """
        return self._arguments.validate(json_text)

    def replace(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        options: ToolOptions | None = None,
    ) -> "Tool[P, R]":
        """Returns the same tool with another name, description or options."""
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
        """Binds a tool in a class body like a method."""
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

    # Each access to a bound method creates a new tool; equal tools share cached results.
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
            return _arguments_of(self.name, self._signature)
        from windlass.tool.arguments.schema_validation import SchemaArguments

        given = self._given
        is_function = isinstance(given, FunctionDeclaration)
        parameters = given.parameters if is_function else no_parameters()
        # Without a function, unknown arguments cannot be refused.
        takes_any = self._original is None or self._signature.open
        return SchemaArguments(self.name, parameters, open=takes_any)


_by_signature: weakref.WeakKeyDictionary[Signature, Arguments] = weakref.WeakKeyDictionary()
_by_shape: dict[Any, Arguments] = {}
_MAX_SHAPES = 500


def _arguments_of(name: str, signature: Signature) -> Arguments:
    """Returns the validator of a signature, cached for it and for signatures of the same shape."""
    if (known := _by_signature.get(signature)) is not None:
        return known
    try:
        built = _by_shape.get(signature.shape)
    except TypeError:  # a default or a hint without a hash
        built = _build_arguments(name, signature)
    else:
        if built is None:
            if len(_by_shape) >= _MAX_SHAPES:
                _by_shape.clear()
            built = _by_shape[signature.shape] = _build_arguments(name, signature)
    _by_signature[signature] = built
    return built


def _build_arguments(name: str, signature: Signature) -> Arguments:
    from windlass.tool.arguments.signature_validation import SignatureArguments

    return SignatureArguments(name, signature)


def name_of(function: AnyCallable | None) -> str:
    """Returns the tool name of a function. Raises `ConfigError` if it has none."""
    while isinstance(function, functools.partial):
        function = cast("AnyCallable", function.func)
    if function is None:
        raise ConfigError("a tool needs a declaration or a function")
    name = getattr(function, "__name__", None) or type(function).__name__
    if name == "<lambda>":
        raise ConfigError("a lambda has no name; use tool(..., name='...')")
    return name


def _checked(given: Declaration | None, *, runs: bool) -> Declaration | None:
    """Returns the declaration in plain JSON Schema. Raises `InvalidSchema`."""
    if not isinstance(given, FunctionDeclaration):
        return given
    checked = in_json_schema(given)
    assert isinstance(checked, FunctionDeclaration)
    if checked.parameters != no_parameters():
        # Imported here, because tools made from functions do not need it.
        from windlass.tool.arguments.schema_validation import check_parameters

        check_parameters(checked.name, checked.parameters, runs=runs)
    return checked


def _declared_name(declaration: Declaration | None) -> str | None:
    match declaration:
        case FunctionDeclaration(name=name):
            return name
        case GoogleSearch():
            return SEARCH_NAME
        case ProviderTool():
            return declaration.name
        case None:
            return None


def _refuse_generator(name: str, function: AnyCallable) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"{name}: a generator cannot be a tool; return the result, and report progress with"
            " ToolContext.progress"
        )


Earlier: TypeAlias = str | AnyCallable | Tool
"""A tool that must finish first: the tool, its function or its name."""


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
    """Makes a function a tool: `@tool`, `@tool(...)` or `tool(function, ...)`.

    The options are those of `ToolOptions`; `after` accepts tools, functions and names. Raises
    `ConfigError` for a name that providers refuse and for invalid options.
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
"""The names of options in other libraries, and their names here."""


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
    """Returns the local names that type hints use while they are strings."""
    if around.f_locals is around.f_globals or not (names := hint_names(function)):
        return None
    known = around.f_locals
    return {name: known[name] for name in names if name in known}


def as_tools(items: Iterable[Any]) -> list[Tool]:
    """Returns the items of `tools=[...]` as tools.

    Raises `DuplicateTool` for two tools of one name, and `ConfigError` for anything else that is
    not a tool.
    """
    whole: Any = items
    if isinstance(whole, (str, Mapping, Tool)) or not isinstance(whole, Iterable):
        raise ConfigError(f"tools must be a list: write [...] around {whole!r}")
    return checked(tool for item in items for tool in _tools_of(item))


def checked(tools: Iterable[Tool]) -> list[Tool]:
    """Returns the tools. Raises `DuplicateTool`, and `ConfigError` for a cycle of `after`."""
    known: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in known:
            raise DuplicateTool(f"two tools are named {tool.name!r}")
        known[tool.name] = tool
    if any(tool.options.after for tool in known.values()):
        for name in known:
            _refuse_cycle(name, known, ())
    return list(known.values())


def _tools_of(item: Any) -> Iterable[Tool]:
    match item:
        case Tool():
            return (cast("Tool", item),)
        # Since Python 3.13, a classmethod around a tool returns a method.
        case types.MethodType() if isinstance(item.__func__, Tool):
            return (cast("Tool", item.__func__).__get__(item.__self__),)
        case FunctionDeclaration() | GoogleSearch() | ProviderTool():
            return (Tool(item),)
        case Mapping():
            declarations = declarations_in(cast("Mapping[str, Any]", item))
            return [Tool(declaration) for declaration in declarations]
        case type():
            name = item.__qualname__
            raise ConfigError(f"not a tool: the class {name}; use an instance or a method of it")
        case _ if callable(item):
            return (Tool(None, item),)
        case _ if (fields := plain_fields(item)) is not None:  # google-genai's, or the MCP SDK's
            return [Tool(declaration) for declaration in declarations_in(fields)]
        case _:
            raise ConfigError(f"not a tool: {item!r} ({type(item).__name__})")


def _refuse_cycle(name: str, tools: Mapping[str, Tool], path: tuple[str, ...]) -> None:
    if name in path:
        cycle = " after ".join((*path[path.index(name) :], name))
        raise ConfigError(f"these tools wait for each other: {cycle}")
    for earlier in tools[name].options.after:
        if earlier in tools:
            _refuse_cycle(earlier, tools, (*path, name))
