"""The budget of a key over a fleet, and over gateways that are killed."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.gateway.limits.spending import ask, endless, spending_gateway

from windlass.gateway.app import App
from windlass.gateway.config.keys import new_key
from windlass.gateway.limits import fleet
from windlass.gateway.limits.budgets import Spending
from windlass.gateway.runs.run import GatewayRun
from windlass.messaging.embedded import NatsServer
from windlass.reply import Reply

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
SECRET, _ = new_key()
SECONDS = 90


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine NATS may seem to be away."""
    monkeypatch.setattr(fleet, "NATS_TIMEOUT", 60.0)


@pytest.fixture(params=["nats", "file"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Where runs are stored: a server for a fleet, or the file of one machine."""
    if request.param == "file":
        yield str(tmp_path / "runs.db")
        return
    async with NatsServer() as server:
        yield server.url


async def used(app: App) -> Spending:
    return await app.gateway.budgets._store.read_spending("web")


async def test_two_gateways_exceed_a_budget_by_one_round_of_each_run_at_most(place: str) -> None:
    apps = [spending_gateway(place, SECRET, 1500) for _ in range(2)]
    async with asyncio.timeout(SECONDS):
        answers = await asyncio.gather(*(ask(apps[n % 2], SECRET) for n in range(6)))
        assert {each.status for each in answers} <= {200, 429}
        started = sum(each.status == 200 for each in answers)
        tokens = sum(each.json["usage"]["total_tokens"] for each in answers if each.status == 200)
        for app in apps:
            assert (await ask(app, SECRET)).error["code"] == "key_budget_exceeded"
            assert (await used(app)).month.tokens == tokens
    assert 1500 <= tokens <= 1500 + 100 * started
    for app in apps:
        await app.gateway.aclose()


async def killed_run(place: str, limit: int) -> str:
    """A run whose gateway was killed in the tool of its third round."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.gateway.limits.spending",
        place,
        SECRET,
        str(limit),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    lines = {(await process.stdout.readline()).decode().strip() for _ in range(2)}
    process.kill()
    await process.wait()
    assert "waiting" in lines
    [run_id] = lines - {"waiting"}
    return run_id


async def resumed(app: App, run_id: str) -> GatewayRun:
    while True:
        for run in await app.gateway.resume():
            if run.id == run_id:
                return run
        await asyncio.sleep(0.05)


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize("limit", [301, 650])
async def test_the_usage_of_a_killed_gateways_runs_is_counted_once(place: str, limit: int) -> None:
    async with asyncio.timeout(SECONDS):
        run_id = await killed_run(place, limit)
        app = spending_gateway(place, SECRET, limit, endless)
        await app.gateway.open()
        assert (await used(app)).month.tokens == 300
        run = await resumed(app, run_id)
        reply: Reply = await run.result()
        assert reply.stop_reason == "budget"
        assert limit <= reply.usage.total_tokens < limit + 100
        assert (await used(app)).month.tokens == reply.usage.total_tokens
        assert (await ask(app, SECRET)).status == 429
        await app.gateway.aclose()


async def test_a_round_whose_count_was_lost_is_counted_when_the_run_is_resumed(
    tmp_path: Path,
) -> None:
    """The gateway is killed after the turn is in the log, and before it is in the budget."""
    place = str(tmp_path / "runs.db")
    async with asyncio.timeout(SECONDS):
        run_id = await killed_run(place, 1000)
        app = spending_gateway(place, SECRET, 450, endless)
        store = app.gateway.budgets._store
        await store.update_spending("web", lambda spent: Spending(spent.date))
        run = await resumed(app, run_id)
        await run.result()
        assert (await used(app)).month.tokens == 500
        await app.gateway.aclose()
