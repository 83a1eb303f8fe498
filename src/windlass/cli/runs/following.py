"""A run as it goes or went: followed in its file, or played from an export."""

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path

from windlass.cli.formatting import ended_words, exit_code
from windlass.cli.output import Output, visible
from windlass.cli.runs.display import Form, Stage, Teller, stage_for
from windlass.cli.runs.log_file import RunsFile, find_run, opened
from windlass.errors import ConfigError
from windlass.events import RunEnded, RunEvent, StopReason
from windlass.runs.export import Export, read_export
from windlass.runs.records import RunRecord

UNENDED = 3
"""The exit code for a run whose end nobody knows."""
LOOK_SECONDS = 1.0
"""After so long without an event it is looked whether the run's process is still there."""

Sleep = Callable[[float], Awaitable[None]]


async def follow(
    path: Path, given: str, after: int, form: Form, output: Output, *, quiet: bool
) -> int:
    """Shows a run from number `after` on, to its end; the exit code says how that was."""
    async with opened(path) as log:
        record = await find_run(log, given)
        known = [e for e in await log.read(record.id) if e.seq <= after] if after else []
        teller = Teller(record.id, record.created)
        teller.remember(known)
        stage = stage_for(form, teller, output, quiet=quiet, before=known)
        try:
            reason, error = await _followed(log, record, after, stage)
        except asyncio.CancelledError:
            stage.close()
            say(f"{record.id} is left alone: it goes on where it goes", quiet=quiet)
            raise
        stage.close()
    return ended(reason, error, quiet=quiet)


def ended(reason: StopReason, error: str | None, *, quiet: bool) -> int:
    """The exit code of a run that was shown; where little is told, says why it is not 0."""
    if quiet and (words := ended_words(reason, error)):
        say(words)
    return exit_code(reason)


def say(words: str, *, quiet: bool = False) -> None:
    """Tells the person at the terminal something of ours."""
    if not quiet:
        sys.stderr.write(f"windlass: {visible(words)}\n")
        sys.stderr.flush()


async def replay(
    name: str, speed: float, max_pause: float | None, form: Form, output: Output, *, quiet: bool
) -> int:
    """Shows an exported run with the pauses that it had; the exit code is that of the run."""
    export = _read(name)
    teller = Teller(export.run.id, live=False)
    stage = stage_for(form, teller, output, quiet=quiet)
    await play(export.events, stage, speed, max_pause)
    last = export.events[-1] if export.events else None
    if isinstance(last, RunEnded):
        return ended(last.reason, last.error, quiet=quiet)
    say("the run had not ended when it was exported")
    return UNENDED


async def play(
    events: Sequence[RunEvent],
    stage: Stage,
    speed: float,
    max_pause: float | None = None,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Shows the events, each as long after the one before as it was then."""
    try:
        for event, pause in zip(events, paused(events, speed, max_pause), strict=True):
            if pause > 0:
                await sleep(pause)
            stage.show(event)
    finally:
        stage.close()


def paused(events: Sequence[RunEvent], speed: float, max_pause: float | None = None) -> list[float]:
    """How long to wait before each event. Speed 2 is twice as fast, and 0 waits for nothing."""
    times = [event.time for event in events]
    gaps = [max(0.0, later - earlier) for earlier, later in pairwise(times)]
    most = math.inf if max_pause is None else max_pause
    return [0.0, *(min(gap / speed, most) if speed else 0.0 for gap in gaps)][: len(events)]


async def _followed(
    log: RunsFile, record: RunRecord, after: int, stage: Stage
) -> tuple[StopReason, str | None]:
    if record.reason is not None and after >= record.events:
        return record.reason, record.error
    follower, missed = log.follow(record.id, after), False
    while True:
        events = await follower.some(LOOK_SECONDS)
        for event in events:
            stage.show(event)
            if isinstance(event, RunEnded):
                return event.reason, event.error
        if not events:
            missed = missed or await _missed(log, record.id)


async def _missed(log: RunsFile, run_id: str) -> bool:
    """Says it if the run's process is gone; whether that was said."""
    if run_id not in await log.cut_off():
        return False
    say(
        f"the process of {run_id} is gone; `windlass runs resume {run_id}` goes on with it, or the"
        " gateway when it is started again. Waiting for that; Ctrl-C leaves"
    )
    return True


def _read(name: str) -> Export:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}") from error
    try:
        return read_export(data)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error
