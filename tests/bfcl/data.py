"""The data of the Berkeley Function Calling Leaderboard, read from the wheel of `bfcl-eval`.

Single-turn cases have tools and gold calls; multi-turn tasks have classes and gold turns.
"""

import ast
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import pytest
from tests.bfcl.schemas import declared, json_schema

from windlass.content import FunctionCall, FunctionDeclaration, Schema
from windlass.emulation.parse import ParsedCall

__all__ = [
    "Call",
    "Case",
    "Task",
    "cases",
    "documented",
    "exact",
    "parsed_call",
    "single_turn_tools",
    "tasks",
]

pytest.importorskip("bfcl_eval", reason="bfcl-eval is not installed: make install")

WITH_ANSWERS = (
    "simple_python",
    "simple_java",
    "simple_javascript",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
)
WITHOUT_ANSWERS = ("irrelevance", "live_irrelevance", "live_relevance")

_DATA = files("bfcl_eval") / "data"


class Call(NamedTuple):
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One question of a single turn: the tools that are offered, and the calls that answer it."""

    id: str
    tools: tuple[FunctionDeclaration, ...]
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Task:
    """A conversation over objects with a state. A turn's gold calls are Python expressions."""

    id: str
    prompts: tuple[str, ...]
    classes: tuple[str, ...]
    config: dict[str, Any]
    excluded: tuple[str, ...]
    gold: tuple[tuple[str, ...], ...]


@cache
def cases() -> tuple[Case, ...]:
    """Every single-turn case that has gold calls."""
    return tuple(case for category in WITH_ANSWERS for case in _cases_of(category))


@cache
def single_turn_tools() -> tuple[FunctionDeclaration, ...]:
    """Every distinct tool of every single-turn category, as it is declared."""
    distinct = {
        json.dumps(function, sort_keys=True): function
        for category in (*WITH_ANSWERS, *WITHOUT_ANSWERS)
        for row in _rows(f"BFCL_v4_{category}.json")
        for function in row["function"]
    }
    return tuple(_declaration(function) for function in distinct.values())


@cache
def tasks(category: str = "base") -> tuple[Task, ...]:
    """The multi-turn tasks of a category: base, long_context, miss_func or miss_param."""
    return tuple(
        Task(
            row["id"],
            tuple("\n".join(said["content"] for said in turn) for turn in row["question"]),
            tuple(row["involved_classes"]),
            row["initial_config"],
            tuple(row.get("excluded_function", ())),
            tuple(map(tuple, gold)),
        )
        for row, gold in _answered(f"multi_turn_{category}")
    )


@cache
def documented(file: str) -> tuple[FunctionDeclaration, ...]:
    """The functions of one class, from its file of `multi_turn_func_doc`."""
    return tuple(map(_declaration, _rows(f"multi_turn_func_doc/{file}")))


def exact(calls: Iterable[Call | FunctionCall | ParsedCall]) -> list[tuple[str, str]]:
    """Names and arguments, so that 1, 1.0 and True differ and the order of the names does not."""
    return [(call.name, json.dumps(call.arguments, sort_keys=True)) for call in calls]


def parsed_call(expression: str, parameters: list[str]) -> Call:
    """A gold call such as `cd(folder='document')`; positional arguments take the names of the
    parameters.

    Raises `ValueError` for anything but a plain name called with literals.
    """
    body = ast.parse(expression, mode="eval").body
    if not isinstance(body, ast.Call) or not isinstance(body.func, ast.Name):
        raise ValueError(f"not a call: {expression}")
    arguments = dict(zip(parameters, map(ast.literal_eval, body.args), strict=False))
    for keyword in body.keywords:
        if keyword.arg is None:
            raise ValueError(f"not a plain argument: {expression}")
        arguments[keyword.arg] = ast.literal_eval(keyword.value)
    return Call(body.func.id, arguments)


def _cases_of(category: str) -> Iterator[Case]:
    for row, gold in _answered(category):
        calls = tuple(
            Call(name, _argued(alternatives))
            for answer in gold
            for name, alternatives in answer.items()
        )
        tools = tuple(declared(_declaration(function), calls) for function in row["function"])
        yield Case(row["id"], tools, calls)


def _argued(alternatives: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: _chosen(value) for name, value in _firsts(alternatives).items()}


def _firsts(alternatives: dict[str, list[Any]]) -> dict[str, Any]:
    """The first acceptable value of each name; "" means that the argument may be missing."""
    firsts = {
        name: next((value for value in values if value != ""), "")
        for name, values in alternatives.items()
    }
    return {name: value for name, value in firsts.items() if value != ""}


def _chosen(value: Any) -> Any:
    """The value of an argument: an object, alone or in a list, has its own alternatives."""
    match value:
        case dict():
            return _firsts(value)
        case list():
            return [_firsts(item) if isinstance(item, dict) else item for item in value]
        case _:
            return value


def _declaration(function: dict[str, Any]) -> FunctionDeclaration:
    parameters: Schema = json_schema(function["parameters"])
    return FunctionDeclaration(function["name"], function["description"], parameters)


def _answered(category: str) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """The rows of a category with their answers."""
    name = f"BFCL_v4_{category}.json"
    for row, answer in zip(_rows(name), _rows(f"possible_answer/{name}"), strict=True):
        assert row["id"] == answer["id"]
        yield row, answer["ground_truth"]


def _rows(path: str) -> list[dict[str, Any]]:
    text = _DATA.joinpath(path).read_text("utf-8")
    return [json.loads(line) for line in text.split("\n") if line.strip()]
