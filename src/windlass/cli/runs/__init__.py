"""`windlass runs`: the runs that are kept in a file, looked at, followed and gone on with."""

import argparse
import asyncio
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windlass.cli.approvals import approval_hook
from windlass.cli.output import Output, own_stdout
from windlass.cli.runs.arguments import configure
from windlass.cli.runs.file import find_log, find_run, opened
from windlass.cli.runs.following import follow, replay, say
from windlass.cli.runs.listing import Listed, list_json, list_table
from windlass.cli.runs.ordering import approve, stop
from windlass.cli.runs.showing import shown
from windlass.cli.runs.stage import Form, fit
from windlass.cli.runs.tones import may_colour, painted
from windlass.errors import ConfigError
from windlass.events import RunEnded, RunEvent
from windlass.jsontext import encode_json
from windlass.loop.history import History
from windlass.runs.export import exported
from windlass.runs.protocol import RunLog
from windlass.runs.records import Order, Retention, RunRecord

__all__ = ["configure", "run"]

UNBOUNDED = 100_000
"""The width of a pipe: nothing is wrapped there."""


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError`, `RunNotFound` and `StorageError`."""
    with own_stdout() as output:
        return asyncio.run(_done(options, output))


async def _done(options: argparse.Namespace, output: Output) -> int:
    if options.action == "replay":
        return await replay(
            options.file,
            options.speed,
            options.max_pause,
            _form(options),
            output,
            quiet=options.quiet,
        )
    path = find_log(options.log)
    match options.action:
        case "list":
            return await _list(path, options, output)
        case "show":
            return await _show(path, options, output)
        case "follow":
            form = _form(options)
            return await follow(path, options.id, options.after, form, output, quiet=options.quiet)
        case "export":
            return await _export(path, options.id, options.output, output)
        case "resume":
            return await _resume(path, options, output)
        case "stop":
            return await stop(path, options.ids)
        case "approve":
            return await _approve(path, options)
        case "delete":
            return await _delete(path, options.ids)
        case _:
            return await _expire(path, options)


def _form(options: argparse.Namespace) -> Form:
    return "json" if options.json else "events" if options.events else "text"


async def _list(path: Path, options: argparse.Namespace, output: Output) -> int:
    async with opened(path) as log:
        records = await log.list(chat=options.chat, open=True if options.open else None)
        wanted = [r for r in records if not options.failed or r.reason == "error"]
        some = wanted[: options.limit or None]
        gone = await log.cut_off()
        listed = [Listed(each, each.id in gone, await _end(log, each)) for each in some]
    if options.json:
        output.json(list_json(listed))
        return 0
    if not listed:
        say("no such run is kept in " + str(path))
        return 0
    width = shutil.get_terminal_size().columns if output.is_terminal else UNBOUNDED
    heads, _, rows = list_table(listed, width).partition("\n")
    output.text(f"{painted(heads, 'strong') if may_colour(output.is_terminal) else heads}\n{rows}")
    if len(some) < len(wanted):
        say(f"{len(some)} of {len(wanted)} runs; --limit 0 lists all")
    return 0


async def _end(log: RunLog, record: RunRecord) -> RunEnded | None:
    """The last event of an ended run, without the others."""
    if record.reason is None:
        return None
    events = await log.read(record.id, record.events - 1)
    return events[-1] if events and isinstance(events[-1], RunEnded) else None


async def _show(path: Path, options: argparse.Namespace, output: Output) -> int:
    async with opened(path) as log:
        record, events = await _read(log, options.id)
        is_gone = record.id in await log.cut_off()
    if options.json:
        output.json({k: v for k, v in _exported(record, events).items() if k != "events"})
        return 0
    pieces = shown(record, events, cut_off=is_gone, full=options.full)
    output.text("".join(fit(piece, output) for piece in pieces))
    return 0


async def _export(path: Path, given: str, target: Path | None, output: Output) -> int:
    async with opened(path) as log:
        record, events = await _read(log, given)
    data = encode_json(_exported(record, events)) + b"\n"
    if target is None:
        output.bytes(data)
        return 0
    _write(target, data)
    say(f"{record.id} is in {target}: {len(events)} events, {len(data)} bytes")
    return 0


def _write(target: Path, data: bytes) -> None:
    try:
        target.write_bytes(data)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror}") from error


async def _read(log: RunLog, given: str) -> tuple[RunRecord, list[RunEvent]]:
    found = await find_run(log, given)
    events = await log.read(found.id)
    return await log.status(found.id), events


def _exported(record: RunRecord, events: Sequence[RunEvent]) -> dict[str, Any]:
    return exported(record, events, History(events).reply().messages)


async def _resume(path: Path, options: argparse.Namespace, output: Output) -> int:
    # Imported here: who only reads runs loads no model and no gateway.
    from windlass.cli.runs.resuming import Resumption, resume

    asks = options.approve is not None or sys.stderr.isatty()
    how = Resumption(
        model=options.model,
        tools=options.tools,
        config=options.config,
        approve=approval_hook(options.approve) if asks else None,
        force=options.force,
        form=_form(options),
        quiet=options.quiet,
    )
    return await resume(path, options.ids, how, output)


async def _approve(path: Path, options: argparse.Namespace) -> int:
    if options.deny and options.arguments is not None:
        raise ConfigError("--arguments goes with a yes: leave out --deny, or the arguments")
    order = Order(
        kind="approve",
        approved=not options.deny,
        arguments=options.arguments,
        reason=options.reason,
    )
    return await approve(path, options.id, options.call, order)


async def _delete(path: Path, given: Sequence[str]) -> int:
    async with opened(path) as log:
        records = [await find_run(log, each) for each in given]
        for record in records:
            await log.delete(record.id)
            say(f"{record.id} is deleted")
    return 0


async def _expire(path: Path, options: argparse.Namespace) -> int:
    retention = Retention(
        max_age=options.older_than, max_runs=options.keep, max_bytes=options.max_bytes
    )
    if retention == Retention():
        raise ConfigError("say which runs go: --older-than, --keep or --max-bytes")
    async with opened(path) as log:
        gone = await log.expire(retention)
    say(f"{gone} {'run' if gone == 1 else 'runs'} deleted")
    return 0
