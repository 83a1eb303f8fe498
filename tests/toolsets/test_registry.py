"""The registry: register, list, unregister, duplicates, and a session's own tools beside the
global ones."""

import threading

import pytest

from windlass import (
    ConfigError,
    DuplicateTool,
    FunctionDeclaration,
    Tool,
    ToolRegistry,
    Toolset,
    tool,
)
from windlass.toolsets.registry import registry as global_registry


def add(a: int, b: int) -> int:
    return a + b


def subtract(a: int, b: int) -> int:
    return a - b


def names(registry: ToolRegistry) -> list[str]:
    return [each.name for each in registry]


def test_a_function_is_registered_listed_and_unregistered():
    registry = ToolRegistry()
    made = registry.register(add)
    assert isinstance(made, Tool)
    assert registry.get("add") is made
    assert registry.list() == [made]
    assert "add" in registry
    assert len(registry) == 1
    assert registry.unregister("add") is made
    assert registry.get("add") is None
    assert len(registry) == 0


async def test_a_registry_is_a_toolset():
    registry = ToolRegistry([add])
    assert isinstance(registry, Toolset)
    assert [each.name for each in await registry.list_tools()] == ["add"]


def test_register_works_as_a_decorator_with_and_without_options():
    registry = ToolRegistry()

    @registry.register
    def one(n: int) -> int:
        return n

    @registry.register(replace=True)
    @tool(name="one", timeout=3)
    def other(n: int) -> int:
        return -n

    assert one(1) == 1
    assert other(1) == -1
    assert names(registry) == ["one"]
    found = registry.get("one")
    assert found is not None
    assert found.options.timeout == 3


def test_a_declaration_is_registered_with_its_function():
    registry = ToolRegistry()
    registry.register(FunctionDeclaration("plus", "Adds."), add)
    registry.register({"name": "minus", "parameters": {"type": "object"}}, subtract)
    registry.register({"name": "declared"})
    assert [(each.name, each.runnable) for each in registry] == [
        ("plus", True),
        ("minus", True),
        ("declared", False),
    ]


def test_a_duplicate_is_refused_unless_it_replaces():
    registry = ToolRegistry([add])
    with pytest.raises(DuplicateTool, match="'add' is already registered"):
        registry.register(add)
    made = registry.register(tool(subtract, name="add"), replace=True)
    assert registry.list() == [made]


def test_a_missing_tool_cannot_be_unregistered():
    with pytest.raises(ConfigError, match="no tool named 'add'"):
        ToolRegistry().unregister("add")


def test_several_tools_at_once_are_refused():
    with pytest.raises(ConfigError, match="one tool at a time"):
        ToolRegistry().register({"functionDeclarations": [{"name": "a"}, {"name": "b"}]})


def test_a_session_overrides_its_parent():
    parent = ToolRegistry([add])
    session = parent.session([tool(subtract, name="add"), subtract])
    assert session.get("add") is not parent.get("add")
    assert names(session) == ["add", "subtract"]
    assert names(parent) == ["add"]
    session.unregister("add")
    assert session.get("add") is parent.get("add")


def test_changes_of_the_parent_are_visible_in_the_session():
    parent = ToolRegistry()
    session = parent.session()
    parent.register(add)
    assert "add" in session
    assert len(session) == 1
    parent.unregister("add")
    assert "add" not in session


def test_a_session_cannot_unregister_for_its_parent():
    session = ToolRegistry([add]).session()
    with pytest.raises(ConfigError):
        session.unregister("add")


def test_the_process_has_a_default_registry():
    assert isinstance(global_registry, ToolRegistry)


def test_of_many_threads_only_one_can_register_a_name():
    registry = ToolRegistry()
    won: list[Tool] = []
    start = threading.Barrier(8)

    def register() -> None:
        start.wait()
        try:
            won.append(registry.register(add))
        except DuplicateTool:
            return

    threads = [threading.Thread(target=register) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert registry.list() == won
    assert len(won) == 1
