"""Tools made from functions, methods, objects and declarations, and what is refused."""

import asyncio
import functools
import gc
import subprocess
import sys
import weakref
from typing import Annotated, Any, assert_type

import pytest
from tests.support import future_tools
from tests.support import sample_tools as samples

from windlass import (
    ConfigError,
    Depends,
    DuplicateTool,
    FunctionDeclaration,
    GoogleSearch,
    InvalidArguments,
    Tool,
    ToolContext,
    tool,
)
from windlass.tool import ToolOptions, as_tools, checked


def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


def one(item: Any) -> Tool:
    (only,) = as_tools([item])
    return only


def run(item: Any, text: str) -> Any:
    """Runs a call like the executor."""
    made = one(item)
    assert made.function is not None
    return made.function(**made.validate(text))


# The decorator.


def test_a_decorated_function_is_still_the_function():
    decorated = tool(add)
    assert decorated(1) == 2
    assert decorated(1, b=5) == 6
    assert decorated.__name__ == "add"
    assert decorated.__doc__ == "Adds."


async def test_a_decorated_coroutine_function_is_still_awaited():
    @tool
    async def double(n: int) -> int:
        return 2 * n

    assert double.is_async
    assert await double(2) == 4


def test_a_tool_has_the_options_of_its_decorator():
    @tool(
        name="other",
        description="Says so.",
        timeout=5,
        idempotent=True,
        cache=60,
        serial=True,
        approve=True,
        after=["first", add, tool(add, name="plus")],
        retries=7,
    )
    def f(): ...

    assert f.name == "other"
    assert f.declaration == FunctionDeclaration(
        "other", "Says so.", {"type": "object", "properties": {}, "additionalProperties": False}
    )
    assert f.options == ToolOptions(
        timeout=5,
        idempotent=True,
        cache=60,
        serial=True,
        approve=True,
        after=("first", "add", "plus"),
        retries=7,
    )


def test_a_described_tool_keeps_the_docstrings_parameters():
    @tool(description="Mine.")
    def f(a: int):
        """Theirs.

        Args:
            a: The a.
        """

    assert f.declaration == one(f).declaration
    assert isinstance(f.declaration, FunctionDeclaration)
    assert f.declaration.description == "Mine."
    assert f.declaration.parameters["properties"]["a"]["description"] == "The a."


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"timeout": -1}, {"cache": True}, {"cache": 0}, {"retries": -1}]
)
def test_invalid_options_are_refused(options: dict[str, Any]):
    with pytest.raises(ConfigError):
        tool(add, **options)


def test_a_tool_can_be_decorated_again():
    async def f(a: int) -> int:
        """Says."""
        return a

    again = tool(tool(f, name="g", timeout=1), description="Says more.", cache=5)
    assert (again.name, again.is_async) == ("g", True)
    assert again.options == ToolOptions(cache=5)
    assert isinstance(again.declaration, FunctionDeclaration)
    assert again.declaration.description == "Says more."
    renamed = Tool(DECLARATION).replace(name="other").declaration
    assert renamed == FunctionDeclaration("other", "Weather.", PARAMETERS)


@pytest.mark.process
def test_decorating_imports_neither_pydantic_nor_a_validator():
    program = (
        "import sys\n"
        "from windlass.tool import as_tools, tool\n"
        "@tool(timeout=3)\n"
        "def f(a: int, b: 'str' = ''): ...\n"
        "as_tools([f, len, {'name': 'g'}])\n"
        "print([m for m in ('pydantic', 'pydantic_core', 'jsonschema_rs') if m in sys.modules])\n"
        "f.validate('{\"a\": 1}')\n"
        "print('pydantic' in sys.modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout.split("\n")[:2] == ["[]", "True"], result.stderr


# What becomes a tool.


@pytest.mark.parametrize(
    ("item", "name", "text", "result"),
    [
        (add, "add", '{"a": 1}', 2),
        (functools.partial(add, b=5), "add", '{"a": 1}', 6),
        (functools.partial(add, 5), "add", '{"b": 1}', 6),
        (functools.partial(functools.partial(add, 5), b=1), "add", "{}", 6),
        (functools.lru_cache(add), "add", '{"a": 1}', 2),
        ("abc".replace, "replace", '{"old": "a", "new": "x"}', "xbc"),
        (tool(lambda n: n + 1, name="next"), "next", '{"n": 1}', 2),
        (abs, "abs", '{"x": -2}', 2),
        (divmod, "divmod", '{"x": 7, "y": 2}', (3, 1)),
    ],
)
def test_callables_become_tools_that_run(item: Any, name: str, text: str, result: Any):
    assert one(item).name == name
    assert run(item, text) == result


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, n: int) -> int:
        """Adds to the total."""
        self.total += n
        return self.total

    @tool(timeout=3)
    def take(self, n: int) -> int:
        """Takes from the total."""
        self.total -= n
        return self.total

    @tool
    @classmethod
    def made(cls, n: int) -> str:
        """Made by the class."""
        return f"{cls.__name__}{n}"

    @classmethod
    @tool
    def also_made(cls, n: int) -> str:
        return f"{cls.__name__}{n}"

    @tool
    @staticmethod
    def fixed(n: int) -> int:
        return n

    @staticmethod
    @tool
    def also_fixed(n: int) -> int:
        return n

    def __call__(self, n: int) -> int:
        return self.add(n)


class Waiter:
    async def __call__(self, n: int) -> int:
        return n


class Special(Counter):
    pass


def test_methods_are_bound_to_their_object():
    counter = Counter()
    assert run(counter.add, '{"n": 2}') == 2
    assert run(counter.take, '{"n": 1}') == 1
    assert counter.take(1) == 0
    assert one(counter.take).options.timeout == 3
    assert one(counter.take).declaration == FunctionDeclaration(
        "take",
        "Takes from the total.",
        {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
            "additionalProperties": False,
        },
    )


def test_tools_of_one_object_are_equal_and_of_two_are_not():
    first, second = Counter(), Counter()
    assert first.take == first.take
    assert hash(first.take) == hash(first.take)
    assert first.take != second.take
    assert tool(add) == tool(add)
    assert tool(add) != tool(add, timeout=1)
    assert tool(add) != "add"


@pytest.mark.parametrize("holder", [Special, Special()])
def test_class_and_static_methods_are_tools_in_either_order(holder: Any):
    assert run(holder.made, '{"n": 1}') == holder.made(1) == "Special1"
    assert run(holder.also_made, '{"n": 1}') == holder.also_made(1) == "Special1"
    assert run(holder.fixed, '{"n": 1}') == holder.fixed(1) == 1
    assert run(holder.also_fixed, '{"n": 1}') == holder.also_fixed(1) == 1


def test_a_callable_object_has_its_class_name_and_its_docstring():
    counter = Counter()
    assert one(counter).name == "Counter"
    declaration = one(counter).declaration
    assert isinstance(declaration, FunctionDeclaration)
    assert declaration.description == "Counts."
    assert run(counter, '{"n": 3}') == 3


@pytest.mark.parametrize(
    "item",
    [
        future_tools.wait,
        functools.partial(future_tools.wait, 1),
        Waiter(),
        functools.partial(Waiter(), n=1),
        tool(future_tools.wait),
    ],
)
def test_async_callables_of_every_kind_are_recognised(item: Any):
    assert one(item).is_async


def test_a_sync_callable_is_not_async():
    assert not any(one(item).is_async for item in (add, Counter(), Counter().add, abs))


def test_positional_only_parameters_are_filled_by_keyword():
    def f(a: int, b: int = 2, /, c: int = 3, *, d: int = 4) -> tuple[int, ...]:
        return a, b, c, d

    assert run(f, '{"a": 1}') == (1, 2, 3, 4)
    assert run(f, '{"a": 1, "b": 5, "d": 6}') == (1, 5, 3, 6)
    assert run(f, '{"a": 1, "c": 7}') == (1, 2, 7, 4)
    assert tool(f)(1, 8) == (1, 8, 3, 4)


def test_arguments_bound_by_a_partial_are_hidden_and_refused():
    bound = one(functools.partial(samples.open_ended, a=1))
    with pytest.raises(InvalidArguments, match="a: no such argument"):
        bound.validate('{"a": 2}')


def test_injected_parameters_are_recognised():
    def number() -> int:
        return 1

    def f(a: int, b: Annotated[int, Depends(number)], context: ToolContext | None = None): ...

    made = one(f)
    assert made.dependencies == {"b": Depends(number)}
    assert made.context_parameter == "context"
    assert one(add).dependencies == {}
    assert one(add).context_parameter is None


def test_text_hints_are_resolved_also_inside_functions():
    assert run(future_tools.paint, '{"color": "RED", "points": [{"x": 1}]}') == ("RED", 1)
    assert run(future_tools.local_tool(), '{"item": {"n": "5"}}') == 5
    assert run(future_tools.Painter().paint, '{"color": "RED"}') == "RED"


def test_a_hint_that_cannot_be_resolved_names_the_parameter():
    with pytest.raises(ConfigError, match="cannot resolve the type 'Nowhere' of 'a'"):
        _ = one(future_tools.unresolved).declaration


def test_the_return_hint_need_not_be_resolvable():
    assert run(future_tools.odd_return, '{"a": 1}') == 1


# Declarations.

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
DECLARATION = FunctionDeclaration("get_weather", "Weather.", PARAMETERS)


PLAIN = {"name": "get_weather", "description": "Weather."}
GEMINI = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]}


@pytest.mark.parametrize(
    "item",
    [
        DECLARATION,
        {"type": "function", "function": {**PLAIN, "parameters": PARAMETERS}},
        {"type": "function", **PLAIN, "parameters": PARAMETERS},
        {**PLAIN, "parameters": PARAMETERS},
        {**PLAIN, "inputSchema": PARAMETERS},
        {"functionDeclarations": [{**PLAIN, "parameters": PARAMETERS}]},
        {"functionDeclarations": [{**PLAIN, "parameters": GEMINI}]},
        {"function_declarations": [{**PLAIN, "parametersJsonSchema": PARAMETERS}]},
    ],
)
def test_every_form_of_a_declaration_is_read(item: Any):
    made = one(item)
    assert made.declaration == DECLARATION
    assert (made.name, made.runnable, made.function) == ("get_weather", False, None)


@pytest.mark.parametrize(
    "item",
    [
        GoogleSearch(),
        {"googleSearch": {}},
        {"google_search": {}},
        {"type": "function", "function": {"name": "googleSearch"}},
        {"type": "function", "function": {"name": "google_search_retrieval"}},
        {"type": "function", "function": {"name": "googleSearch", "parameters": PARAMETERS}},
    ],
)
def test_google_search_is_a_marker_in_every_form(item: Any):
    made = one(item)
    assert made.declaration == GoogleSearch()
    assert made.name == "google_search"
    assert not made.runnable


def test_one_gemini_tool_may_hold_several_declarations():
    item = {"functionDeclarations": [{"name": "a"}, {"name": "b"}], "googleSearch": {}}
    assert [made.name for made in as_tools([item])] == ["a", "b", "google_search"]


def test_geminis_dialect_becomes_json_schema():
    schema = {
        "type": "OBJECT",
        "properties": {"n": {"type": "INTEGER", "nullable": True, "description": "N."}},
        "minProperties": "1",
    }
    declaration = one({"functionDeclarations": [{"name": "f", "parameters": schema}]}).declaration
    assert isinstance(declaration, FunctionDeclaration)
    assert declaration.parameters == {
        "type": "object",
        "properties": {
            "n": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "N."}
        },
        "minProperties": 1,
    }


def test_a_declaration_runs_with_its_own_function():
    made = Tool(DECLARATION, lambda city: city.upper())
    assert run(made, '{"city": "Paris"}') == "PARIS"
    again = Tool.from_declaration({"name": "f", "parameters": PARAMETERS}, str.upper, timeout=3)
    assert again.options.timeout == 3
    assert again.declaration == FunctionDeclaration("f", "", PARAMETERS)


def test_a_declared_function_may_have_injected_parameters():
    def number() -> int:
        return 1

    def repeat(city: str, n: Annotated[int, Depends(number)]) -> str:
        return city * n

    assert Tool(DECLARATION, repeat).dependencies == {"n": Depends(number)}


def test_a_declared_tool_cannot_be_called():
    with pytest.raises(TypeError, match="get_weather is only declared"):
        one(DECLARATION)()


# What is refused.


@pytest.mark.parametrize("item", [5, "add", None, object(), [add], {"x": 1}, {}, int, Counter])
def test_anything_else_is_refused_and_shown(item: Any):
    with pytest.raises(ConfigError, match="not a tool"):
        as_tools([item])


@pytest.mark.parametrize("items", [add, "add", {"name": "f"}, tool(add), 5])
def test_a_list_is_wanted(items: Any):
    with pytest.raises(ConfigError, match="tools must be a list"):
        as_tools(items)


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(DuplicateTool, match="two tools are named 'add'"):
        as_tools([add, {"name": "add"}])


@pytest.mark.parametrize("name", ["1st", "a b", "a.b", "né", "a:b", "-a", "x" * 65])
def test_names_that_providers_refuse_are_refused_here(name: str):
    with pytest.raises(ConfigError, match="tool name"):
        tool(add, name=name)
    with pytest.raises(ConfigError, match="tool name"):
        as_tools([{"name": name}])


@pytest.mark.parametrize("name", ["_", "a-b", "A1", "x" * 64])
def test_names_that_providers_accept_are_accepted(name: str):
    assert tool(add, name=name).name == name


def test_a_lambda_needs_a_name():
    with pytest.raises(ConfigError, match="a lambda has no name"):
        as_tools([lambda: 1])


def test_a_generator_is_refused_with_a_hint():
    def numbers():
        yield 1

    async def more_numbers():
        yield 1

    for function in (numbers, more_numbers):
        with pytest.raises(ConfigError, match="progress"):
            tool(function)


def test_a_dependency_as_a_default_is_refused():
    def f(a: Any = Depends(add)): ...  # noqa: B008

    with pytest.raises(ConfigError, match="Annotated"):
        _ = one(f).declaration


def test_tools_that_wait_for_each_other_are_refused():
    a = tool(add, name="a", after=["b"])
    b = tool(add, name="b", after=["c"])
    c = tool(add, name="c", after=["a"])
    with pytest.raises(ConfigError, match="wait for each other: a after b after c after a"):
        as_tools([a, b, c])
    with pytest.raises(ConfigError, match="wait for each other"):
        checked([tool(add, name="self", after=["self"])])
    assert as_tools([a, b]) == [a, b]  # what is not there is not waited for


# The context.


def test_a_context_has_a_key_and_reports_progress():
    heard: list[Any] = []
    context = ToolContext("run", "call", 2, "add", None, lambda *said: heard.append(said))
    context.progress(0.5, "half", {"n": 1})
    context.progress(message="more")
    assert context.call_key == "run:call"
    assert heard == [(0.5, "half", {"n": 1}), (None, "more", None)]


def test_a_manually_created_context_reports_to_no_one():
    ToolContext().progress(1.0)


# Cost.


def test_a_signature_is_cached_as_long_as_its_function():
    def f(a: int): ...

    first, second = one(f), one(f)
    assert first is not second
    assert isinstance(first.declaration, FunctionDeclaration)
    assert isinstance(second.declaration, FunctionDeclaration)
    assert first.declaration.parameters is second.declaration.parameters

    gone = weakref.ref(f)
    del f, first, second
    gc.collect()
    assert gone() is None


def test_equal_closures_share_one_validator():
    def make(factor: int) -> Any:
        def scale(n: int, unit: str = "m") -> int:
            return n * factor

        return scale

    first, second = one(make(2)), one(make(3))
    assert isinstance(first.declaration, FunctionDeclaration)
    assert isinstance(second.declaration, FunctionDeclaration)
    assert first.declaration.parameters is second.declaration.parameters
    assert (run(first, '{"n": 2}'), run(second, '{"n": 2}')) == (4, 6)


def test_equal_defaults_of_different_types_are_distinguished():
    def make(default: Any) -> Any:
        def f(n=default):
            return n

        return f

    kept = [one(make(default)) for default in (1, True, 1.0)]
    assert [each.validate('{"n": 1}')["n"] for each in kept] == [1, True, 1.0]
    assert [type(each.validate('{"n": 1}')["n"]) for each in kept] == [int, bool, float]


def test_threads_may_use_a_new_tool_at_once():
    async def many() -> list[dict[str, Any]]:
        made = one(functools.partial(add, b=2))
        jobs = (asyncio.to_thread(made.validate, '{"a": 1}') for _ in range(16))
        return await asyncio.gather(*jobs)

    assert asyncio.run(many()) == [{"a": 1}] * 16


def test_a_type_checker_knows_the_signature_of_a_decorated_function():
    assert_type(tool(add)(1, 2), int)
    assert_type(tool(timeout=1)(add)(1, b=2), int)
    assert_type(Counter().take(1), int)
