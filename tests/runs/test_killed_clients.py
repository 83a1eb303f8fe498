"""Clients of a process that was killed: another one resumes their runs, and runs no tool twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.runs.conftest import MakeClient
from tests.runs.looking import events_of
from tests.runs.processes import CUT, Child, note

from windlass import tool
from windlass.errors import WindlassError
from windlass.events import (
    RoundRestarted,
    RunEnded,
    RunEvent,
    RunResumed,
    ToolRunEnded,
    ToolRunStarted,
)
from windlass.runs.event_log import Follower
from windlass.testing import call

pytestmark = pytest.mark.process


async def read_until(reader: Follower, last: Callable[[RunEvent], bool]) -> list[RunEvent]:
    seen = [await anext(reader)]
    while not last(seen[-1]):
        seen.append(await anext(reader))
    return seen


def tools_after(ledger: Path, when_cut: str) -> list[Any]:
    """The tools of the killed process, which return now."""

    @tool
    async def quick(n: int) -> str:
        """Returns at once."""
        note(ledger, f"quick {n}")
        return f"quick {n}"

    @tool(**CUT[when_cut])
    async def slow(n: int) -> str:
        """Returns after a while."""
        note(ledger, f"slow {n}")
        return f"slow {n}"

    return [quick, slow]


def begun(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines()


@pytest.mark.parametrize("when_cut", ["idempotent", "retry", "tell_model", "fail"])
async def test_a_run_whose_process_was_killed_continues_and_no_finished_call_runs_twice(
    client_on: MakeClient, path: Path, tmp_path: Path, when_cut: str
) -> None:
    ledger = tmp_path / "ledger"
    client = client_on(["All is done."], tools=tools_after(ledger, when_cut))
    with Child("client", path, ledger, when_cut) as process:
        run_id = await process.hear()
        assert await process.hear() == "in the middle"
        reader = client.subscribe(run_id)
        seen = await read_until(reader, lambda e: isinstance(e, ToolRunStarted) and e.round == 2)
        assert await client.resume() == []  # it lives
        process.kill()
    [run] = await client.resume()
    assert run.id == run_id
    assert await client.resume() == []
    if when_cut == "fail":
        with pytest.raises(WindlassError, match="slow was interrupted, effect unknown"):
            await run.result()
    else:
        assert (await run.result()).text == "All is done."
    again = ["slow 3"] if when_cut in ("idempotent", "retry") else []
    assert begun(ledger) == ["quick 1", "quick 2", "slow 3", *again]
    seen += [event async for event in reader]
    assert seen == await events_of(client, run_id)
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    assert isinstance(seen[-1], RunEnded)
    [end] = [e for e in seen if isinstance(e, ToolRunEnded) and e.response.id == "c"]
    told = when_cut in ("tell_model", "fail")
    assert (end.outcome, end.effect_unknown) == (("interrupted", True) if told else ("ok", False))
    assert sum(isinstance(event, RunResumed) for event in seen) == 1
    assert not any(isinstance(event, RoundRestarted) for event in seen)


async def test_a_run_with_missing_tools_ends_with_an_error(
    client_on: MakeClient, path: Path, tmp_path: Path
) -> None:
    with Child("client", path, tmp_path / "ledger", "retry") as process:
        run_id = await process.hear()
        assert await process.hear() == "in the middle"
    client = client_on(tools=tools_after(tmp_path / "ledger", "retry")[:1])
    [run] = await client.resume()
    with pytest.raises(WindlassError, match="its tools are missing: slow"):
        await run.result()
    assert len(begun(tmp_path / "ledger")) == 3
    kept = await client_on().run(run_id)
    assert kept.stop_reason == "error"
    with pytest.raises(WindlassError, match="its tools are missing: slow"):
        await kept.result()


async def test_the_runs_of_another_model_and_of_another_kind_are_left_alone(
    client_on: MakeClient, path: Path, tmp_path: Path
) -> None:
    with Child("client", path, tmp_path / "ledger", "retry") as process:
        run_id = await process.hear()
        assert await process.hear() == "in the middle"
    with Child("write", path, "of_a_gateway") as process:
        assert await process.hear() == "begun"
    other = client_on(["mine"], name="scripted/other")
    assert await other.resume() == []
    client = client_on(["done"], tools=tools_after(tmp_path / "ledger", "retry"))
    [run] = await client.resume()
    assert run.id == run_id
    await run.result()
    assert [each.id for each in await client.runs() if each.stop_reason is None] == ["of_a_gateway"]


@pytest.mark.parametrize(("budget", "rounds"), [(15, 2), (31, 3), (46, 4), (60, 5)])
async def test_a_resumed_run_counts_what_it_spent_before_its_process_was_killed(
    client_on: MakeClient, path: Path, tmp_path: Path, budget: int, rounds: int
) -> None:
    """Each round uses 15 tokens, and two of them were before the kill."""
    ledger = tmp_path / "ledger"
    model = [call("quick", n=number) for number in range(9)]
    client = client_on(lambda request: model.pop(0), tools=tools_after(ledger, "tell_model"))
    with Child("client", path, ledger, "tell_model", budget) as process:
        run_id = await process.hear()
        assert await process.hear() == ("in the middle" if budget > 30 else "")
    resumed = await client.resume()
    if budget > 30:
        assert (await resumed[0].result()).stop_reason == "budget"
    else:  # it ended before the kill
        assert resumed == []
    [*_, ended] = await events_of(client, run_id)
    assert isinstance(ended, RunEnded)
    assert (ended.reason, ended.budget) == ("budget", "max_tokens_total")
    assert (ended.rounds, ended.usage.total_tokens) == (rounds, 15 * rounds)
    assert ended.usage.total_tokens <= budget + 15
