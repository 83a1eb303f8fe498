"""The contents of the wheel of `bfcl-eval`. Other counts mean another version."""

import jsonschema_rs
import pytest
from tests.bfcl.data import cases, documented, parsed_call, single_turn_tools, tasks
from tests.bfcl.schemas import declared, json_schema
from tests.bfcl.worlds import CLASSES, World

from windlass.content import FunctionDeclaration

pytestmark = pytest.mark.sweep

KINDS = {"string", "integer", "number", "boolean", "array", "object", None}


def test_every_reference_call_is_read() -> None:
    assert len(cases()) == 2501
    assert sum(len(case.calls) for case in cases()) == 3302


def test_every_reference_call_uses_a_tool_that_its_case_declares() -> None:
    for case in cases():
        assert {call.name for call in case.calls} <= {tool.name for tool in case.tools}, case.id


def test_every_tool_speaks_json_schema() -> None:
    functions = [function for file in CLASSES.values() for function in documented(file)]
    assert (len(single_turn_tools()), len(CLASSES), len(functions)) == (3258, 8, 128)
    for tool in (*single_turn_tools(), *functions):
        assert _kinds(tool) <= KINDS, tool.name


def test_there_are_four_times_two_hundred_tasks() -> None:
    categories = ("base", "long_context", "miss_func", "miss_param")
    assert [len(tasks(category)) for category in categories] == [200] * 4
    assert sum(len(turn) for task in tasks() for turn in task.gold) == 1142


def test_the_first_acceptable_value_is_taken_and_an_optional_one_left_out() -> None:
    [case] = [case for case in cases() if case.id == "live_parallel_multiple_0-0-0"]
    [call] = [call for call in case.calls if call.name == "ChaDri.change_drink"]
    assert call.arguments["new_preferences"] == {
        "size": "large",
        "temperature": "hot",
        "sweetness_level": "regular",
        "milk_type": "almond",
    }


def test_types_of_other_languages_get_their_json_names() -> None:
    given = {
        "type": "dict",
        "properties": {
            "pair": {"type": "tuple", "items": {"type": "float"}},
            "type": {"type": "any", "default": "None"},
        },
    }
    assert json_schema(given) == {
        "type": "object",
        "properties": {
            "pair": {"type": "array", "items": {"type": "number"}},
            "type": {},
        },
    }


def test_every_reference_call_matches_its_declaration() -> None:
    for case in cases():
        properties = {tool.name: tool.parameters["properties"] for tool in case.tools}
        for call in case.calls:
            for name, value in call.arguments.items():
                assert jsonschema_rs.is_valid(properties[call.name][name], value), case.id


def test_a_declaration_is_corrected_by_its_reference_call() -> None:
    tool = FunctionDeclaration("f", "", {"properties": {"n": {"type": "integer"}, "any": {}}})
    calls = [("f", {"n": "many", "any": 1.5, "new": True}), ("g", {"n": False})]
    assert declared(tool, calls).parameters["properties"] == {
        "n": {"type": "string"},
        "any": {"type": "number"},
        "new": {"type": "boolean"},
    }


def test_a_declaration_accepts_null_where_its_reference_call_passes_it() -> None:
    tool = FunctionDeclaration("f", "", {"properties": {"n": {"type": "integer"}}})
    assert declared(tool, [("f", {"n": None})]).parameters["properties"] == {
        "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    }


def test_a_reference_call_without_names_uses_the_order_of_the_parameters() -> None:
    [*_, turn, _] = World(tasks()[0]).gold
    assert turn == [("sort", {"file_name": "final_report.pdf"})]


@pytest.mark.parametrize("expression", ["f", "a.b()", "f(x=g())", "f(**{})", "f(x)"])
def test_a_reference_call_is_a_name_with_literals(expression: str) -> None:
    with pytest.raises(ValueError, match=r"not a|malformed"):
        parsed_call(expression, ["x"])


def _kinds(tool: FunctionDeclaration) -> set[str | None]:
    found: set[str | None] = set()
    waiting = [tool.parameters]
    while waiting:
        schema = waiting.pop()
        found.add(schema.get("type"))
        waiting.extend(schema.get("properties", {}).values())
        if "items" in schema:
            waiting.append(schema["items"])
    return found
