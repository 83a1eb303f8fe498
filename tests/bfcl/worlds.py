"""The objects that BFCL's multi-turn tasks act upon: file system, shop, car, travel agency, ..."""

import copy
import importlib
import inspect
import warnings
from collections.abc import Mapping
from itertools import count
from typing import Any

from tests.bfcl.data import Call, Task, documented, parsed_call
from tests.bfcl.schemas import declared

from windlass import Tool

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the package's source causes warnings
    from bfcl_eval.constants.executable_backend_config import (
        CLASS_FILE_PATH_MAPPING,
        MULTI_TURN_FUNC_DOC_FILE_MAPPING,
        STATELESS_CLASSES,
    )
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call

__all__ = ["CLASSES", "World", "expected"]

CLASSES = {
    name: file
    for name, file in MULTI_TURN_FUNC_DOC_FILE_MAPPING.items()
    if not name.startswith(("WebSearch", "Memory"))  # these need a network and more packages
}

_RUNS = count()


class World:
    """Fresh objects of a task's classes, in the state where the task begins."""

    def __init__(self, task: Task) -> None:
        self.objects = {name: _made(name, task.config) for name in task.classes}
        self.gold = [[self._call(expression) for expression in turn] for turn in task.gold]
        self._excluded = task.excluded

    @property
    def tools(self) -> list[Tool]:
        """Their documented methods, which run one after another: each may change the state."""
        calls = [call for turn in self.gold for call in turn]
        return [
            Tool.from_declaration(
                declared(declaration, calls), getattr(made, declaration.name), serial=True
            )
            for name, made in self.objects.items()
            for declaration in documented(CLASSES[name])
            if declaration.name not in self._excluded
        ]

    @property
    def state(self) -> dict[str, dict[str, Any]]:
        """The public attributes of each object."""
        return _states(self.objects)

    def _call(self, expression: str) -> Call:
        name = expression.partition("(")[0]
        owner = next(made for made in self.objects.values() if hasattr(made, name))
        return parsed_call(expression, list(inspect.signature(getattr(owner, name)).parameters))


def expected(task: Task) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """What BFCL's own runner gets for the gold calls: their results as text, and the end state."""
    results, objects = execute_multi_turn_func_call(
        [call for turn in task.gold for call in turn],
        copy.deepcopy(task.config),
        list(task.classes),
        f"gold_{next(_RUNS)}",  # it would reuse the objects of an earlier run
        task.id,
    )
    return results, _states(objects)


def _made(name: str, config: Mapping[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module(CLASS_FILE_PATH_MAPPING[name])
    made = getattr(module, name)()
    if name not in STATELESS_CLASSES:
        made._load_scenario(copy.deepcopy(config.get(name, {})))
    return made


def _states(objects: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: {key: value for key, value in vars(made).items() if not key.startswith("_")}
        for name, made in objects.items()
    }
