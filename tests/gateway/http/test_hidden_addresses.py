"""Answers do not contain upstream addresses or paths of the gateway's files."""

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.support.asgi import post, request
from tests.support.serving import config_of
from tests.support.talking import asking

from windlass.errors import StorageError
from windlass.gateway.app import App
from windlass.gateway.config import ModelConfig
from windlass.gateway.gateway import Gateway
from windlass.model import Model
from windlass.models import Retry
from windlass.models.gemini import GeminiModel
from windlass.models.openai import OpenAIModel
from windlass.runs.sqlite import SQLiteLog

ONCE = Retry(attempts=1)
HOST, PORT = "127.0.0.1", "9"
MODELS = {
    "openai": lambda: OpenAIModel("m", base_url=f"http://{HOST}:{PORT}/v1", retry=ONCE),
    "gemini": lambda: GeminiModel("m", base_url=f"http://{HOST}:{PORT}", api_key="k", retry=ONCE),
}
SAID = "cannot connect to the upstream of model 'fast'"


class Broken:
    """A model that fails with an unexpected error."""

    name = "broken/model"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def stream(self, request: Any) -> Any:
        raise self._error

    async def aclose(self) -> None:
        pass


def app_of(model: Model, file: Path | None = None, mode: Any = None) -> App:
    config = config_of(ModelConfig(name="fast", target=model.name, mode=mode))
    log = SQLiteLog(file) if file else None
    return App(Gateway(config, models={"fast": model}, tools=(), log=log))


async def all_said(app: App) -> str:
    """Everything that a client can read of a run that fails, in every form."""
    ask = asking("?", model="fast", tools=[{"type": "function", "function": {"name": "f"}}])
    said = [await post(app, ask), await post(app, {**ask, "stream": True})]
    said.append(await post(app, ask, "/v1/runs"))
    run_id = said[-1].json["id"]
    path = f"/v1/runs/{run_id}"
    for each in (f"{path}/events", path, f"{path}/export", "/v1/runs"):
        said.append(await request(app, "GET", each))
    return "\n".join(answer.body.decode() for answer in said)


@pytest.mark.parametrize("mode", ["native", "emulated", "auto"])
@pytest.mark.parametrize("wire", MODELS)
async def test_an_unreachable_upstreams_address_is_in_the_log_and_not_in_answers(
    wire: str, mode: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    app = app_of(MODELS[wire](), tmp_path / "runs.db", mode)
    said = await all_said(app)
    assert said.count(SAID) >= 5
    assert f"{HOST}:{PORT}" not in said
    assert "9)" not in said
    assert f"cannot connect to {HOST}:{PORT}" in caplog.text
    await app.gateway.aclose()


async def test_the_status_of_an_unreachable_upstream_is_a_502() -> None:
    app = app_of(MODELS["openai"]())
    answer = await post(app, asking("?", model="fast"))
    assert (answer.status, answer.error["code"]) == (502, "upstream_failed")
    await app.gateway.aclose()


@pytest.mark.parametrize(
    "error", [OSError(2, "No such file", "/etc/private/key"), StorageError("/etc/private/runs.db")]
)
async def test_the_text_of_an_internal_error_is_not_in_answers(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    app = app_of(Broken(error))
    said = await all_said(app)
    assert "/etc/private" not in said
    logged = [each.getMessage() for each in caplog.records]
    assert logged.count("Run failed") == (3 if isinstance(error, OSError) else 0)
    await app.gateway.aclose()
