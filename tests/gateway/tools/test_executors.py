"""A custom executor in a gateway."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.asgi import post
from tests.support.serving import config_of
from tests.support.talking import asking

from windlass import ToolAnswer, ToolError, ToolExecutor, ToolJob, tool
from windlass.content import FunctionResponse
from windlass.errors import ConfigError
from windlass.gateway import GatewayConfig, create_app, load_config
from windlass.gateway.app import App
from windlass.gateway.config import ModelConfig, check_config
from windlass.gateway.runs.lookup import FinishedRun
from windlass.loop.history import History
from windlass.testing import ScriptedModel, call

MODEL = '[models.m]\ntarget = "openai/gpt-5-mini"\napi_key_env = "SOME_KEY"\ntools = ["add"]\n'
SOURCE = """
from windlass import ToolAnswer, ToolExecutor, ToolJob, tool

@tool
def add(a: int, b: int) -> int:
    '''Adds.'''
    return a + b

class Counting(ToolExecutor):
    def __init__(self, start=0):
        super().__init__()
        self.count = start

    async def execute(self, job: ToolJob) -> ToolAnswer:
        self.count += 1
        return await super().execute(job)

class Needy(ToolExecutor):
    def __init__(self, limit):
        super().__init__()

class Stranger:
    async def execute(self, job):
        return None

ready = Counting(10)
number = 3

def factory():
    return Counting(20)

def lazy():
    return 7

def broken():
    raise ValueError("no database")

async def late():
    return Counting()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    known = set(sys.modules)
    (tmp_path / "executor_home.py").write_text(SOURCE)
    yield tmp_path
    for name in set(sys.modules) - known:
        if "executor_home" in name or name.startswith("_windlass_tools_"):
            del sys.modules[name]


def written(folder: Path, executor: str, modules: str = '["executor_home.py"]') -> Path:
    file = folder / "windlass.toml"
    file.write_text(f"[tools]\nmodules = {modules}\nexecutor = {executor}\n{MODEL}")
    return file


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


SERVED = config_of(ModelConfig(name="m", target="scripted/model", tools=("add",)))


class Limited(ToolExecutor):
    """Rate limiting: one call runs, and the model reads about the others."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    async def execute(self, job: ToolJob) -> ToolAnswer:
        self.seen.append(job.call.name)
        if len(self.seen) > 1:
            raise ToolError("slow down")
        return await super().execute(job)


class Remembering(ToolExecutor):
    """Caching: a repeated call returns the first result."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, ToolAnswer] = {}

    async def execute(self, job: ToolJob) -> ToolAnswer:
        if job.call.json not in self.kept:
            self.kept[job.call.json] = await super().execute(job)
        kept = self.kept[job.call.json].response
        return ToolAnswer(FunctionResponse(kept.name, kept.response, job.call.id))


def app_with(executor: Any, script: Any, tools: Any = (add,)) -> App:
    return create_app(SERVED, models={"m": ScriptedModel(script)}, tools=tools, executor=executor)


async def by_hand(app: App, **arguments: Any) -> Any:
    return (await post(app, {"arguments": arguments}, "/v1/tools/add/call")).json


async def test_the_executor_of_create_app_executes_calls_of_runs_and_manual_calls() -> None:
    limited = Limited()
    app = app_with(limited, [call("add", a=1, b=2), "Three."])
    assert (await post(app, asking("?"))).status == 200
    [run] = app.gateway.runs.all()
    assert isinstance(run, FinishedRun)
    assert History(await run.recorded()).reply().results[0].output == 3
    answer = await by_hand(app, a=3, b=4)
    assert (answer["outcome"], answer["response"]) == ("error", {"error": "slow down"})
    assert limited.seen == ["add", "add"]
    await app.gateway.aclose()


async def test_an_executor_that_caches_runs_the_tool_once() -> None:
    ran: list[int] = []

    @tool(name="add")
    def counted(a: int, b: int) -> int:
        """Adds."""
        ran.append(a)
        return a + b

    app = app_with(Remembering(), [call("add", a=1, b=2), call("add", a=1, b=2), "3"], [counted])
    assert (await post(app, asking("?"))).status == 200
    assert (await by_hand(app, a=1, b=2))["response"] == {"output": 3}
    [run] = app.gateway.runs.all()
    assert isinstance(run, FinishedRun)
    results = History(await run.recorded()).reply().results
    assert [result.output for result in results] == [3, 3]
    assert ran == [1]
    await app.gateway.aclose()


@pytest.mark.parametrize("given", [Limited, lambda: Limited()])
async def test_create_app_takes_a_class_and_a_factory_too(given: Any) -> None:
    app = app_with(given, ["Fine."])
    assert (await by_hand(app, a=1, b=2))["response"] == {"output": 3}
    assert (await by_hand(app, a=1, b=2))["response"] == {"error": "slow down"}
    await app.gateway.aclose()


@pytest.mark.parametrize("wrong", [3, "my_tools:MyExecutor", dict, lambda: None])
def test_create_app_refuses_other_values(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="ToolExecutor"):
        app_with(wrong, ["Fine."])


@pytest.mark.parametrize(
    ("path", "modules", "start"),
    [
        ("executor_home.py:Counting", '["executor_home.py"]', 0),
        ("executor_home:Counting", '["executor_home.py"]', 0),
        ("executor_home:Counting", '["executor_home"]', 0),
        ("executor_home:ready", '["executor_home.py"]', 10),
        ("executor_home:factory", '["executor_home.py"]', 20),
    ],
)
async def test_the_configuration_names_an_executor_by_its_import_path(
    folder: Path, path: str, modules: str, start: int
) -> None:
    config = load_config(written(folder, f'"{path}"', modules), {"SOME_KEY": "k"})
    executor: Any = config.executor
    assert (type(executor).__name__, executor.count) == ("Counting", start)
    model = ScriptedModel([call("add", a=1, b=2), "Three."])
    app = create_app(config, models={"m": model})
    assert (await post(app, asking("?"))).status == 200
    assert (await by_hand(app, a=3, b=4))["response"] == {"output": 7}
    assert executor.count == start + 2
    await app.gateway.aclose()


def test_a_module_with_tools_and_the_executor_is_loaded_once(folder: Path) -> None:
    config = load_config(written(folder, '"executor_home:Counting"'), {"SOME_KEY": "k"})
    assert type(config.executor).__module__.startswith("_windlass_tools_")


def test_an_executor_in_another_module_needs_no_entry_in_modules(folder: Path) -> None:
    (folder / "tools.py").write_text(SOURCE.partition("class Counting")[0])
    config = load_config(
        written(folder, '"executor_home:Counting"', '["tools.py"]'), {"SOME_KEY": "k"}
    )
    assert type(config.executor).__name__ == "Counting"


@pytest.mark.parametrize(
    ("written_as", "said"),
    [
        ('"executor_home.py"', "must be 'module:name'"),
        ('"executor_home:"', "must be 'module:name'"),
        ('":Counting"', "must be 'module:name'"),
        ('"nowhere:Counting"', "there is no module 'nowhere'"),
        ('"nowhere.py:Counting"', "there is no file"),
        ('"executor_home.py:Countin"', "did you mean 'Counting'"),
        ('"executor_home.py:number"', "not 3"),
        ('"executor_home.py:Stranger"', "subclass of windlass.ToolExecutor"),
        ('"executor_home.py:Needy"', "cannot be called without arguments"),
        ('"executor_home.py:lazy"', "must return a windlass.ToolExecutor, not 7"),
        ('"executor_home.py:broken"', "ValueError: no database"),
        ('"executor_home.py:late"', "is async"),
        ("3", "must be a non-empty string"),
        ('""', "must be a non-empty string"),
    ],
)
def test_each_mistake_in_the_import_path_is_a_config_error(
    folder: Path, written_as: str, said: str
) -> None:
    problems = check_config(written(folder, written_as), {"SOME_KEY": "k"})
    assert [problem.place for problem in problems] == ["tools.executor"]
    assert said in problems[0].message


def test_a_path_in_a_config_made_in_python_is_loaded_by_create_app() -> None:
    with pytest.raises(ConfigError, match=r"^tools\.executor: there is no module 'nowhere'"):
        create_app(GatewayConfig(executor="nowhere:Counting"))
