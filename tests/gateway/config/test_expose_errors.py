"""`expose_errors` in windlass.toml and of a worker's tool."""

from pathlib import Path
from typing import Any

from tests.support.serving import Serving, config_of
from tests.support.talking import asking, client_of

from windlass import tool
from windlass.gateway.config import ModelConfig, load_config
from windlass.testing import ScriptedModel, call, say, tool_results
from windlass.toolsets.remote.frames import spec_of


@tool
def query() -> str:
    """Queries the database."""
    raise ConnectionError("Database connection failed")


def answer_of(config: ModelConfig) -> str:
    def read(request: Any) -> Any:
        results = tool_results(request)
        return say(results[0].text) if results else call("query")

    serving = Serving(config_of(config), models={"m": ScriptedModel(read)}, tools=[query])
    with serving, client_of(serving, "") as client:
        body = client.post("/v1/chat/completions", json=asking("?")).json()
    return body["choices"][0]["message"]["content"]


def test_a_model_reads_the_texts_of_exceptions_only_if_its_table_allows_it() -> None:
    closed = ModelConfig(name="m", target="scripted/m", tools=("query",))
    assert answer_of(closed) == '{"error":"query failed with an internal error."}'
    opened = ModelConfig(name="m", target="scripted/m", tools=("query",), expose_errors=True)
    assert answer_of(opened) == '{"error":"Database connection failed"}'


def test_the_table_of_a_model_has_the_option(tmp_path: Path) -> None:
    file = tmp_path / "windlass.toml"
    file.write_text('[models.m]\ntarget = "openai/m"\nexpose_errors = true\n')
    assert load_config(file, {}).models["m"].expose_errors is True


def test_a_worker_s_tool_takes_the_option_with_it() -> None:
    assert spec_of(tool(query, expose_errors=True)).options().expose_errors is True
    assert spec_of(query).options().expose_errors is None
