"""`windlass runs`: the runs that are kept in a file, looked at, followed and gone on with."""

import argparse
import asyncio
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windlass.cli.approvals import ANSWERS, approval_hook
from windlass.cli.arguments import (
    age,
    completes_files,
    json_object,
    non_negative,
    size,
    whole_number,
)
from windlass.cli.output import Output, may_colour, own_stdout, painted
from windlass.cli.runs.control import approve, stop
from windlass.cli.runs.display import Form, Listed, fit, list_json, list_table, shown
from windlass.cli.runs.following import follow, replay, say
from windlass.cli.runs.log_file import find_log, find_run, opened
from windlass.errors import ConfigError
from windlass.events import RunEnded, RunEvent
from windlass.gateway.config import CONFIG_NAME
from windlass.jsontext import encode_json
from windlass.loop.history import History
from windlass.runs.export import exported
from windlass.runs.protocol import RunLog
from windlass.runs.records import Order, Retention, RunRecord

DESCRIPTION = """\
Works with the runs that are kept in a file: those of a gateway with [runs] path, and of clients
with log="...". Each works also while another process runs them."""

EPILOG = """\
examples:
  windlass runs list --open
  windlass runs show 3fa2
  windlass runs follow 3fa2
  windlass runs export 3fa2 -o run.json && windlass runs replay run.json --speed 4
  windlass runs resume

A run is named by its id or the beginning of one; `run_` may be left out. The file is that of
--log, else of [runs] path in the windlass.toml here, else windlass.db here."""

LIST_EPILOG = """\
examples:
  windlass runs list
  windlass runs list --open
  windlass runs list --failed --json | jq -r '.[].error'

states: running; cut off (its process is gone: see resume); or why it ended: answer, stopped, error,
max_rounds, ..."""

SHOW_EPILOG = """\
examples:
  windlass runs show 3fa2
  windlass runs show 3fa2 --full
  windlass runs show 3fa2 --json | jq '.rounds[].calls[].name'"""

FOLLOW_EPILOG = """\
examples:
  windlass runs follow 3fa2
  windlass runs follow 3fa2 --after 120 --events

The answer goes to stdout as it comes, all else to stderr. Ctrl-C leaves the run alone. Text that a
crash has cut off, and that the model was asked for again, is marked as superseded.

exit codes:
  0    an answer
  1    the run failed
  3    the run ended without a full answer; stderr says why
  130  Ctrl-C"""

EXPORT_EPILOG = """\
examples:
  windlass runs export 3fa2 -o run.json
  windlass runs export 3fa2 | jq '.rounds[].calls'"""

REPLAY_EPILOG = """\
examples:
  windlass runs replay run.json
  windlass runs replay run.json --speed 4 --max-pause 2
  windlass runs export 3fa2 | windlass runs replay - --speed 0

The exit codes are those of follow."""

RESUME_EPILOG = """\
examples:
  windlass runs resume --tools tools.py
  windlass runs resume 3fa2 --model openai/gpt-5-mini --tools tools.py
  windlass runs resume --config /etc/windlass/windlass.toml

Without an id it is every run that was cut off, one after the other. A client's run goes on with
the model that it was begun with, and finds its tools by name in --tools; a gateway's run has both
out of windlass.toml. A tool call that has ended is not run again. Ctrl-C leaves the run open, so
that it can be gone on with once more. The exit codes are those of follow."""

STOP_EPILOG = """\
examples:
  windlass runs stop 3fa2"""

APPROVE_EPILOG = """\
examples:
  windlass runs approve 3fa2
  windlass runs approve 3fa2 call_7 --deny --reason "too expensive"
  windlass runs approve 3fa2 call_7 --arguments '{"amount": 5}'"""

DELETE_EPILOG = """\
examples:
  windlass runs delete 3fa2 81c0"""

EXPIRE_EPILOG = """\
examples:
  windlass runs expire --older-than 30d
  windlass runs expire --keep 1000 --max-bytes 500M

A run goes if any of these says so; the newest are kept. Runs that have not ended always are."""

UNBOUNDED = 100_000
"""The width of a pipe: nothing is wrapped there."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    _configure_reading(actions)
    _configure_playing(actions)
    _configure_resume(actions)
    _configure_orders(actions)
    _configure_forgetting(actions)


def _configure_reading(actions: Any) -> None:
    listing = _action(actions, "list", "say which runs there are, newest first", LIST_EPILOG)
    listing.add_argument("--open", action="store_true", help="those that have not ended")
    listing.add_argument("--failed", action="store_true", help="those that ended with an error")
    listing.add_argument("--chat", metavar="ID", help="those of this chat")
    listing.add_argument(
        "--limit",
        type=whole_number(),
        default=20,
        metavar="N",
        help="how many (default: 20; 0: all)",
    )
    listing.add_argument("--json", action="store_true", help="write a JSON list")

    show = _action(actions, "show", "say what a run was asked, did and answered", SHOW_EPILOG)
    _add_run(show)
    form = show.add_mutually_exclusive_group()
    form.add_argument("--full", action="store_true", help="shorten nothing")
    form.add_argument("--json", action="store_true", help="write what export does, less the events")

    export = _action(actions, "export", "write a run as one JSON file", EXPORT_EPILOG)
    _add_run(export)
    completes_files(
        export.add_argument(
            "-o", "--output", type=Path, metavar="FILE", help="where to (default: stdout)"
        )
    )


def _configure_playing(actions: Any) -> None:
    follow = _action(actions, "follow", "show a run as it goes, to its end", FOLLOW_EPILOG)
    _add_run(follow)
    follow.add_argument(
        "--after", type=whole_number(), default=0, metavar="N", help="begin after event number N"
    )
    _add_forms(follow)

    replay = _action(actions, "replay", "play an exported run", REPLAY_EPILOG, log=False)
    completes_files(
        replay.add_argument("file", metavar="FILE", help="what export wrote; -: read from stdin")
    )
    replay.add_argument(
        "--speed",
        type=non_negative,
        default=1.0,
        metavar="X",
        help="times as fast as it was (default: 1; 0: at once)",
    )
    replay.add_argument(
        "--max-pause",
        type=non_negative,
        metavar="S",
        help="wait at most so many seconds at a time",
    )
    _add_forms(replay)


def _configure_resume(actions: Any) -> None:
    resume = _action(actions, "resume", "go on with runs whose process is gone", RESUME_EPILOG)
    resume.add_argument("ids", nargs="*", metavar="ID", help="the runs (default: all such)")
    completes_files(
        resume.add_argument(
            "--config", type=Path, metavar="FILE", help=f"default: {CONFIG_NAME} of this directory"
        )
    )
    completes_files(
        resume.add_argument(
            "--tools",
            action="append",
            default=[],
            metavar="FILE",
            help="a file (tools.py) or module (acme.tools) with tools; may be given again",
        )
    )
    resume.add_argument(
        "--model", metavar="NAME", help="provider/model, or a name of the windlass.toml here"
    )
    resume.add_argument(
        "--approve",
        choices=ANSWERS,
        help="what to say to tools that ask first (default: ask on a terminal, else wait for"
        " `windlass runs approve`)",
    )
    resume.add_argument(
        "--force", action="store_true", help="also runs whose tools or model are gone: they end"
    )
    _add_forms(resume)


def _configure_orders(actions: Any) -> None:
    stop = _action(actions, "stop", "end a run now, wherever it goes", STOP_EPILOG)
    stop.add_argument("ids", nargs="+", metavar="ID", help="the runs")

    approve = _action(actions, "approve", "say yes or no to a call that waits", APPROVE_EPILOG)
    _add_run(approve)
    approve.add_argument(
        "call", nargs="?", metavar="CALL", help="the call's id (default: the only one that waits)"
    )
    approve.add_argument("--deny", action="store_true", help="say no")
    approve.add_argument("--reason", metavar="TEXT", help="why; the model reads it after a no")
    approve.add_argument(
        "--arguments", type=json_object, metavar="JSON", help="run it with these arguments instead"
    )


def _configure_forgetting(actions: Any) -> None:
    delete = _action(actions, "delete", "forget ended runs wholly", DELETE_EPILOG)
    delete.add_argument("ids", nargs="+", metavar="ID", help="the runs")

    expire = _action(actions, "expire", "forget ended runs that are too many", EXPIRE_EPILOG)
    expire.add_argument(
        "--older-than", type=age, metavar="AGE", help="that ended so long ago: 90s, 15m, 12h, 30d"
    )
    expire.add_argument("--keep", type=whole_number(), metavar="N", help="beyond the newest N")
    expire.add_argument(
        "--max-bytes", type=size, metavar="SIZE", help="beyond so much: 4096, 500k, 20M, 1G"
    )


def _action(
    actions: Any, name: str, said: str, epilog: str, *, log: bool = True
) -> argparse.ArgumentParser:
    action: argparse.ArgumentParser = actions.add_parser(
        name, help=said, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if log:
        completes_files(
            action.add_argument(
                "--log",
                type=Path,
                metavar="FILE",
                help="the file with the runs (default: [runs] path of windlass.toml; windlass.db)",
            )
        )
    return action


def _add_run(action: argparse.ArgumentParser) -> None:
    action.add_argument("id", metavar="ID", help="the run, by its id or the beginning of it")


def _add_forms(action: argparse.ArgumentParser) -> None:
    form = action.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write one JSON object at the end")
    form.add_argument("--events", action="store_true", help="write each event as a line of JSON")
    action.add_argument("-q", "--quiet", action="store_true", help="only errors go to stderr")


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
