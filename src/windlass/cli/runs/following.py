"""`windlass runs follow` and `replay`: shows a stored run while it is active, or an export."""

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path

from windlass.cli.exit_codes import INCOMPLETE, ending_text, exit_code
from windlass.cli.output import CommandOutput, visible
from windlass.cli.runs.display import EventFormatter, Form, RunPrinter, printer_for
from windlass.cli.runs.log_file import RunsFile, find_run, open_log
from windlass.errors import ConfigError
from windlass.events import RunEnded, RunEvent, StopReason
from windlass.runs.export import Export, read_export
from windlass.runs.records import RunRecord

PROCESS_CHECK_SECONDS = 1.0
"""After this time without an event, check whether the run's process still exists."""

Sleep = Callable[[float], Awaitable[None]]


async def follow(
    path: Path, given: str, after: int, form: Form, output: CommandOutput, *, quiet: bool
) -> int:
    """Shows a run from the event after number `after` to its end; returns its exit code."""
    async with open_log(path) as log:
        record = await find_run(log, given)
        known = [e for e in await log.read(record.id) if e.seq <= after] if after else []
        formatter = EventFormatter(record.id, record.created)
        formatter.remember(known)
        printer = printer_for(form, formatter, output, quiet=quiet, before=known)
        try:
            reason, error = await _followed(log, record, after, printer)
        except asyncio.CancelledError:
            printer.close()
            say(f"stopped following {record.id}; the run continues", quiet=quiet)
            raise
        printer.close()
    return ended(reason, error, quiet=quiet)


def ended(reason: StopReason, error: str | None, *, quiet: bool) -> int:
    """The exit code of a displayed run. With `quiet`, reports why it is not 0."""
    if quiet and (text := ending_text(reason, error)):
        say(text)
    return exit_code(reason)


def say(text: str, *, quiet: bool = False) -> None:
    """Writes a message of the command to stderr."""
    if not quiet:
        sys.stderr.write(f"windlass: {visible(text)}\n")
        sys.stderr.flush()


async def replay(
    name: str,
    speed: float,
    max_pause: float | None,
    form: Form,
    output: CommandOutput,
    *,
    quiet: bool,
) -> int:
    """Shows an exported run with its original pauses; returns the exit code of the run."""
    export = _read(name)
    formatter = EventFormatter(export.run.id, live=False)
    printer = printer_for(form, formatter, output, quiet=quiet)
    await play(export.events, printer, speed, max_pause)
    last = export.events[-1] if export.events else None
    if isinstance(last, RunEnded):
        return ended(last.reason, last.error, quiet=quiet)
    say("the run was exported before it ended")
    return INCOMPLETE


async def play(
    events: Sequence[RunEvent],
    printer: RunPrinter,
    speed: float,
    max_pause: float | None = None,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Shows the events with the pauses between them."""
    try:
        for event, pause in zip(events, pauses(events, speed, max_pause), strict=True):
            if pause > 0:
                await sleep(pause)
            printer.show(event)
    finally:
        printer.close()


def pauses(events: Sequence[RunEvent], speed: float, max_pause: float | None = None) -> list[float]:
    """The pause before each event. Speed 2 is twice as fast; 0 means no pauses."""
    times = [event.time for event in events]
    gaps = [max(0.0, later - earlier) for earlier, later in pairwise(times)]
    most = math.inf if max_pause is None else max_pause
    return [0.0, *(min(gap / speed, most) if speed else 0.0 for gap in gaps)][: len(events)]


async def _followed(
    log: RunsFile, record: RunRecord, after: int, printer: RunPrinter
) -> tuple[StopReason, str | None]:
    if record.reason is not None and after >= record.events:
        return record.reason, record.error
    follower, reported = log.follow(record.id, after), False
    while True:
        events = await follower.some(PROCESS_CHECK_SECONDS)
        for event in events:
            printer.show(event)
            if isinstance(event, RunEnded):
                return event.reason, event.error
        if not events:
            reported = reported or await _report_exit(log, record.id)


async def _report_exit(log: RunsFile, run_id: str) -> bool:
    """Reports it if the run's process has exited; returns whether it did."""
    if run_id not in await log.cut_off():
        return False
    say(
        f"the process of {run_id} has exited; resume the run with `windlass runs resume {run_id}`,"
        " or restart its gateway. Waiting for that; Ctrl-C stops waiting"
    )
    return True


def _read(name: str) -> Export:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {name}: {error.strerror}") from error
    try:
        return read_export(data)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error
