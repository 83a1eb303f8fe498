"""Runs with a type whose process was killed between an invalid and a valid answer."""

from pathlib import Path
from typing import Any

import pytest
from tests.runs.conftest import MakeClient
from tests.runs.looking import events_of
from tests.runs.processes import Child, refuse_nothing
from tests.support.typed_answers import BAD, ERRORS, GOOD, INVOICE, Invoice

from windlass import OutputInvalid, WindlassError
from windlass.events import OutputRejected, RoundRestarted, RunResumed
from windlass.testing import ScriptedModel


async def killed_run(path: Path, validated: str = "") -> str:
    """A run in the log whose process was killed after its first answer was rejected."""
    with Child("typed", path, validated) as process:
        run_id = await process.hear()
        assert await process.hear() == "asked again"
        process.kill()
    return run_id


@pytest.mark.process
async def test_a_run_killed_between_an_invalid_and_a_valid_answer_ends_correctly(
    client_on: MakeClient, path: Path
) -> None:
    run_id = await killed_run(path)
    client = client_on([GOOD])
    [run] = await client.resume(outputs=[list[int], Invoice])
    reply = await run.result()
    assert reply.output == INVOICE
    assert len(reply.messages) == 2
    events = await events_of(client, run_id)
    [rejected] = [event for event in events if isinstance(event, OutputRejected)]
    assert rejected.errors == ERRORS
    assert sum(isinstance(e, RunResumed | RoundRestarted) for e in events) == 2
    model: Any = client.model
    assert ERRORS[0] in model.requests[0].messages[-1].text


@pytest.mark.process
async def test_without_its_type_a_resumed_run_returns_the_json_value(
    client_on: MakeClient, path: Path
) -> None:
    await killed_run(path)
    [run] = await client_on([GOOD]).resume()
    assert (await run.result()).output == INVOICE.model_dump(mode="json")


@pytest.mark.process
async def test_the_attempts_before_the_crash_count(client_on: MakeClient, path: Path) -> None:
    await killed_run(path)
    [run] = await client_on([BAD, BAD]).resume(outputs=[Invoice])
    with pytest.raises(OutputInvalid, match="after 3 attempts") as caught:
        await run.result()
    assert (caught.value.text, caught.value.errors) == (BAD, ERRORS)


@pytest.mark.process
async def test_a_run_with_a_validator_needs_it_again(client_on: MakeClient, path: Path) -> None:
    await killed_run(path, "validated")
    [run] = await client_on([]).resume(outputs=[Invoice])
    with pytest.raises(WindlassError, match="pass output_validator= to resume"):
        await run.result()


@pytest.mark.process
async def test_a_run_with_a_validator_ends_correctly_with_it(
    client_on: MakeClient, path: Path
) -> None:
    await killed_run(path, "validated")
    client = client_on([GOOD])
    [run] = await client.resume(outputs=[Invoice], output_validator=refuse_nothing)
    assert (await run.result()).output == INVOICE


async def test_a_stored_run_has_its_json_value(client_on: MakeClient) -> None:
    client = client_on(["[1, 2]"])
    run = await client.start("?", output=list[int])
    assert (await run.result()).output == [1, 2]
    await client.aclose()
    again = client_on(ScriptedModel([]))
    stored = await again.run(run.id)
    assert (await stored.result()).output == [1, 2]
