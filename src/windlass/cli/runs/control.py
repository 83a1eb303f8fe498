"""`windlass runs stop` and `approve`: orders to the process of a run, through the file."""

from collections.abc import Callable, Sequence
from pathlib import Path

from windlass.cli.formatting import shortened
from windlass.cli.runs.following import PROCESS_CHECK_SECONDS, say
from windlass.cli.runs.log_file import RunsFile, find_run, open_log
from windlass.content import FunctionCall
from windlass.errors import ConfigError, WindlassError
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    RoundRestarted,
    RunEnded,
    RunEvent,
    ToolRunEnded,
)
from windlass.runs.records import Order, RunRecord


async def stop(path: Path, given: Sequence[str]) -> int:
    """Stops the runs, and waits until they have ended."""
    async with open_log(path) as log:
        for each in given:
            record = await find_run(log, each)
            if record.reason is not None:
                say(f"{record.id} has already ended: {record.reason}")
                continue
            end = await _answer_to(log, record, Order(kind="stop"), _is_end)
            assert isinstance(end, RunEnded)
            if end.reason == "stopped":
                say(f"stopped {record.id}")
            else:
                say(f"{record.id} ended before the stop: {end.reason}")
    return 0


async def approve(path: Path, given: str, call_id: str | None, order: Order) -> int:
    """Approves or denies a waiting call, and waits until the run has recorded the decision."""
    async with open_log(path) as log:
        record = await find_run(log, given)
        if record.reason is not None:
            raise WindlassError(
                f"{record.id} has ended ({record.reason}): none of its calls needs approval"
            )
        call = _chosen(waiting(await log.read(record.id)), call_id, record.id)
        decision = Order(
            kind="approve",
            call_id=call.id,
            approved=order.approved,
            arguments=order.arguments,
            reason=order.reason,
        )

        def is_answer(event: RunEvent) -> bool:
            resolved = isinstance(event, ApprovalResolved) and event.call_id == call.id
            return resolved or isinstance(event, RunEnded)

        answer = await _answer_to(log, record, decision, is_answer)
    if not isinstance(answer, ApprovalResolved):
        raise WindlassError(f"{record.id} ended before the decision about {call.name}")
    decision_text = "approved" if answer.approved else "denied"
    if answer.approved != order.approved:
        raise WindlassError(f"another decision about {call.name} came first: {decision_text}")
    say(f"{shortened(call.name)} {shortened(call.json)}: {decision_text}")
    return 0


def waiting(events: Sequence[RunEvent]) -> list[FunctionCall]:
    """The calls that wait for approval."""
    calls: dict[str, FunctionCall] = {}
    for event in events:
        match event:
            case ApprovalRequested(call=call):
                calls[call.id] = call
            case ApprovalResolved(call_id=call_id):
                calls.pop(call_id, None)
            case ToolRunEnded(response=response):
                calls.pop(response.id, None)
            case RoundRestarted() | RunEnded():
                calls.clear()
            case _:
                pass
    return list(calls.values())


def _chosen(calls: Sequence[FunctionCall], given: str | None, run_id: str) -> FunctionCall:
    """The call whose id is or begins with `given`; without it, the only waiting call."""
    found = [call for call in calls if given is None or call.id == given]
    if not found and given:
        found = [call for call in calls if call.id.startswith(given)]
    if len(found) == 1:
        return found[0]
    if not calls:
        raise WindlassError(f"no call of {run_id} waits for approval")
    those = "".join(f"\n  {c.id}  {shortened(c.name)} {shortened(c.json)}" for c in calls)
    which = "several calls wait" if given is None or found else f"no waiting call {given!r}"
    raise ConfigError(f"{which}; name one of these:{those}")


def _is_end(event: RunEvent) -> bool:
    return isinstance(event, RunEnded)


async def _answer_to(
    log: RunsFile, record: RunRecord, order: Order, is_answer: Callable[[RunEvent], bool]
) -> RunEvent:
    """The event that answers the order. Raises `WindlassError` if the run's process has exited."""
    await _check_process(log, record)
    await log.order(record.id, order)
    follower = log.follow(record.id, record.events)
    while True:
        events = await follower.some(PROCESS_CHECK_SECONDS)
        for event in events:
            if is_answer(event):
                return event
        if not events:
            await _check_process(log, record)


async def _check_process(log: RunsFile, record: RunRecord) -> None:
    if record.id in await log.cut_off():
        raise WindlassError(
            f"the process of {record.id} has exited, and the run is interrupted:"
            f" `windlass runs resume {record.id}` resumes it"
        )
