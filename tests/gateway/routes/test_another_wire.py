"""A new wire is one reader, one writer and one route. No other module changes."""

from pathlib import Path
from typing import Any

import pytest
from tests.gateway.routes.lines_wire import PATH, WIRE
from tests.support.asgi import Answer, post, request
from tests.support.restarting import TOOLS
from tests.support.serving import config_of

from windlass.gateway import create_app
from windlass.gateway.app import App
from windlass.gateway.config import ModelConfig, RunsConfig
from windlass.testing import ScriptedModel, call, refuse

SERVED = ModelConfig(name="m", target="scripted/model", tools=("lookup",))
ROME = {"to": "m", "lines": ["Weather", "in Rome?"]}


def app_of(*script: Any, path: Path | None = None) -> App:
    served = config_of(SERVED, runs=RunsConfig(path=str(path))) if path else config_of(SERVED)
    return create_app(served, models={"m": ScriptedModel(script)}, tools=TOOLS, wires=[WIRE])


async def ask(app: App, body: dict[str, Any]) -> Answer:
    return await post(app, body, PATH)


async def test_its_requests_run_server_tools() -> None:
    app = app_of(call("lookup", city="Rome"), "Sunny.\nWarm.")
    answer = await ask(app, ROME)
    assert answer.json == {"lines": ["Sunny.", "Warm."]}
    run_id = answer.headers["x-windlass-run-id"]
    run = (await request(app, "GET", f"/v1/runs/{run_id}")).json
    assert run["title"] == "Weather in Rome?"
    assert run["response"]["choices"][0]["message"]["content"] == "Sunny.\nWarm."
    events = (await request(app, "GET", f"/v1/runs/{run_id}/events")).body
    assert b"event: tool_run_ended" in events


async def test_its_streams_have_its_own_form() -> None:
    app = app_of(call("lookup", city="Rome"), "Sunny.")
    answer = await ask(app, {**ROME, "follow": True, "loud": True})
    first, result, *texts, last = answer.body.decode().splitlines()
    assert first == "(begin)"
    assert result == '# lookup: {"output": "sunny in Rome"}'
    assert "".join(line.removeprefix("> ") for line in texts) == "SUNNY."
    assert last == "(end: answer)"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"to": "m"}, "! 400 lines: must have at least one line\n"),
        (
            {"to": "ghost", "lines": ["Hi"]},
            "! 404 The model 'ghost' does not exist, or this key may not use it.\n",
        ),
    ],
)
async def test_its_errors_have_its_own_form(body: dict[str, Any], said: str) -> None:
    answer = await ask(app_of(), body)
    assert answer.body.decode() == said


async def test_a_failed_upstream_is_an_error_in_its_own_form() -> None:
    answer = await ask(app_of(refuse(400, "Not today.")), {**ROME, "follow": True})
    assert (answer.status, answer.body) == (400, b"! 400 Not today.\n")


async def test_other_paths_keep_the_usual_form_of_errors() -> None:
    assert (await request(app_of(), "GET", "/v1/runs/run_x")).error["code"] == "run_not_found"


async def test_a_stored_run_of_it_is_shown_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    before = app_of("Sunny.", path=path)
    run_id = (await ask(before, ROME)).headers["x-windlass-run-id"]
    await before.gateway.aclose()
    after = app_of(path=path)
    run = (await request(after, "GET", f"/v1/runs/{run_id}")).json
    assert run["response"]["choices"][0]["message"]["content"] == "Sunny."
    await after.gateway.aclose()
