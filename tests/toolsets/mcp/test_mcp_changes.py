"""Tools that an MCP server adds, changes and removes while a gateway runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.asgi import post, request
from tests.toolsets.mcp.serving import configured

from windlass.content import FunctionDeclaration
from windlass.events import ApprovalRequested
from windlass.gateway import App, create_app
from windlass.gateway.config import load_config
from windlass.testing import ScriptedModel, call

pytestmark = pytest.mark.process

SECONDS = 60
ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Go."}]}


class Serving:
    """A gateway with one model, and the tools of one server that changes."""

    def __init__(self, app: App, model: ScriptedModel) -> None:
        self.app, self.model = app, model

    async def run(self) -> str:
        answer = await post(self.app, ASK)
        assert answer.status == 200, answer.body
        return answer.json["choices"][0]["message"]["content"]

    async def tools(self) -> list[str]:
        """The model's tools, as the gateway lists them."""
        return (await request(self.app, "GET", "/v1/models/m")).json["windlass"]["tools"]

    async def has(self, *names: str) -> None:
        """Waits until the server's notification has arrived."""
        async with asyncio.timeout(SECONDS):
            while await self.tools() != [f"tiny__{name}" for name in names]:
                await asyncio.sleep(0.005)

    @asynccontextmanager
    async def listed_anew(self) -> AsyncIterator[None]:
        """Waits until the server's tools have been listed again."""
        server = self.app.gateway.registry.servers._toolsets["tiny"]
        known = await server.list_tools()
        yield
        async with asyncio.timeout(SECONDS):
            while await server.list_tools() is known:
                await asyncio.sleep(0.005)

    @property
    def offered(self) -> dict[str, str]:
        """The tools of the model's last request."""
        tools = self.model.requests[-1].tools
        return {
            each.name.removeprefix("tiny__"): each.description
            for each in tools
            if isinstance(each, FunctionDeclaration)
        }


def become(**tools: str) -> Any:
    return call("tiny__become", tools=tools)


@asynccontextmanager
async def serving(
    directory: Path,
    *script: Any,
    tools: tuple[str, ...] = ("tiny__*",),
    changes: str = "yes",
    more: str = "",
) -> AsyncIterator[Serving]:
    file = configured(directory, tools, f'env = {{ CHANGES = "{changes}" }}\n{more}')
    model = ScriptedModel(script)
    app = create_app(load_config(file, {"OPENAI_API_KEY": "x"}), models={"m": model})
    yield Serving(app, model)
    await app.gateway.aclose()


async def test_a_tool_that_a_server_adds_is_in_the_next_run(tmp_path: Path) -> None:
    script = (become(new="Is new."), "Changed.", call("tiny__new"), "Used.")
    async with serving(tmp_path, *script) as gateway:
        await gateway.run()
        assert gateway.offered.keys() == {"become"}
        await gateway.has("become", "new")
        assert await gateway.run() == "Used."
        assert gateway.offered["new"] == "Is new."
        assert gateway.model.requests[-1].messages[-1].responses[0].output == "new ran"
        counted = gateway.app.gateway.metrics.render(None)[0].decode()
        assert 'windlass_tool_runs_total{outcome="ok",tool="tiny__new"} 1.0' in counted


async def test_a_tool_that_a_server_removes_is_in_no_later_run(tmp_path: Path) -> None:
    script = (become(one="1", two="2"), "Changed.", become(two="2"), "Changed.", "No tools.")
    async with serving(tmp_path, *script) as gateway:
        await gateway.run()
        await gateway.has("become", "one", "two")
        await gateway.run()
        await gateway.has("become", "two")
        await gateway.run()
        assert gateway.offered.keys() == {"become", "two"}


async def test_a_model_that_names_tools_one_by_one_gets_no_others(tmp_path: Path) -> None:
    script = (become(new="Is new."), "Changed.", "Done.")
    async with serving(tmp_path, *script, tools=("tiny__become",)) as gateway:
        async with gateway.listed_anew():
            await gateway.run()
        await gateway.run()
        assert gateway.offered.keys() == {"become"}


async def test_a_server_may_have_no_tools(tmp_path: Path) -> None:
    async with serving(tmp_path, "No tools.", changes="nothing yet") as gateway:
        assert await gateway.run() == "No tools."
        assert gateway.offered == {}


async def test_a_description_that_changes_is_reported_after_an_approval(tmp_path: Path) -> None:
    first, second = become(it="Is harmless."), become(it="Is another.")
    runs = (first, "1", second, "2", call("tiny__it"), "3", "4")
    async with serving(tmp_path, *runs) as gateway:
        await gateway.run()
        await gateway.has("become", "it")
        async with gateway.listed_anew():
            await gateway.run()
        await post(gateway.app, ASK, "/v1/runs")
        [run] = gateway.app.gateway.runs.running()
        async for event in run.events():
            if isinstance(event, ApprovalRequested):
                assert event.call.name == "tiny__it:changed"
                assert run.approve(event.call.id)
        assert gateway.offered["it"] == "Is harmless."
        assert (await run.result()).text == "3"
        await gateway.run()
        assert gateway.offered["it"] == "Is another."


@pytest.mark.parametrize(("on_change", "told"), [("allow", {"it": "Is another."}), ("refuse", {})])
async def test_a_changed_description_is_accepted_or_refused_as_configured(
    tmp_path: Path, on_change: str, told: dict[str, str]
) -> None:
    script = (become(it="Is harmless."), "1", become(it="Is another."), "2", "3")
    more = f'on_change = "{on_change}"'
    async with serving(tmp_path, *script, more=more) as gateway:
        await gateway.run()
        await gateway.has("become", "it")
        async with gateway.listed_anew():
            await gateway.run()
        await gateway.run()
        assert {name: gateway.offered[name] for name in gateway.offered if name == "it"} == told


async def test_tools_without_a_trusted_description_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = (become(it="Is harmless."), "1", "2", "3", "4")
    async with serving(tmp_path, *script) as gateway:
        await gateway.run()
        await gateway.has("become", "it")
        (tmp_path / "mcp-pins.json").write_text("damaged")
        await gateway.has()
        await gateway.run()
        await gateway.run()
        assert gateway.offered == {}
        said = [record for record in caplog.records if "Omitting the tools" in record.message]
        assert len(said) == 1
        assert "mcp-pins.json is damaged" in said[0].getMessage()
        (tmp_path / "mcp-pins.json").unlink()
        await gateway.has("become", "it")
