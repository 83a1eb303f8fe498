"""`windlass runs`: lists, shows, follows, controls, resumes and deletes stored runs."""

import argparse
import asyncio
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windlass.cli.approvals import ANSWERS, approval_hook
from windlass.cli.arguments import (
    add_action,
    add_output_options,
    add_tools_option,
    age,
    completes_files,
    json_object,
    non_negative,
    size,
    whole_number,
)
from windlass.cli.output import CommandOutput, coloured, own_stdout, use_colour
from windlass.cli.runs.control import approve, stop
from windlass.cli.runs.display import Form, ListedRun, list_json, list_table, rendered, run_details
from windlass.cli.runs.following import follow, replay, say
from windlass.cli.runs.log_file import find_log, find_run, open_log
from windlass.errors import ConfigError
from windlass.events import RunEnded, RunEvent
from windlass.gateway.config import CONFIG_NAME
from windlass.jsontext import encode_json
from windlass.loop.history import History
from windlass.runs.export import exported
from windlass.runs.protocol import RunLog
from windlass.runs.records import Order, Retention, RunRecord

DESCRIPTION = """\
Shows and controls stored runs: those of a gateway with [runs] path, and of clients with
log="...". Every action also works while another process executes the run."""

EPILOG = """\
examples:
  windlass runs list --open
  windlass runs show 3fa2
  windlass runs follow 3fa2
  windlass runs export 3fa2 -o run.json && windlass runs replay run.json --speed 4
  windlass runs resume

Name a run by its id or the beginning of its id, with or without `run_`. The file is that of --log,
otherwise the [runs] path of windlass.toml in this directory, otherwise windlass.db in this
directory."""

LIST_EPILOG = """\
examples:
  windlass runs list
  windlass runs list --open
  windlass runs list --failed --json | jq -r '.[].error'

states: running; interrupted (its process has exited: see resume); or the stop reason of an ended
run: answer, stopped, error, max_rounds, ..."""

SHOW_EPILOG = """\
examples:
  windlass runs show 3fa2
  windlass runs show 3fa2 --full
  windlass runs show 3fa2 --json | jq '.rounds[].calls[].name'"""

FOLLOW_EPILOG = """\
examples:
  windlass runs follow 3fa2
  windlass runs follow 3fa2 --after 120 --events

The answer goes to stdout while it arrives, everything else to stderr. Ctrl-C does not stop the
run. Text that a crash interrupted, and that the model wrote again, is marked as superseded.

exit codes:
  0    an answer
  1    the run failed
  3    the run ended without a full answer; stderr shows why
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

Without an id, all interrupted runs are resumed, one after the other. A client's run uses the model
that it was started with, and finds its tools by name in --tools; a gateway's run takes both from
windlass.toml. No finished tool call is executed again. Ctrl-C interrupts the run, so that you can
resume it again. The exit codes are those of follow."""

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

A run is deleted if it exceeds any of these limits; the newest runs are kept. A run that has not
ended is never deleted."""

PIPE_WIDTH = 100_000
"""Wide enough that tables in a pipe are not wrapped."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    _configure_reading(actions)
    _configure_following(actions)
    _configure_resume(actions)
    _configure_control(actions)
    _configure_deleting(actions)


def _configure_reading(actions: Any) -> None:
    listing = _action(actions, "list", "list runs, newest first", LIST_EPILOG)
    listing.add_argument("--open", action="store_true", help="only runs that have not ended")
    listing.add_argument("--failed", action="store_true", help="only failed runs")
    listing.add_argument("--chat", metavar="ID", help="only runs of this chat")
    listing.add_argument(
        "--limit",
        type=whole_number(),
        default=20,
        metavar="N",
        help="maximum number of runs (default: 20; 0: all)",
    )
    listing.add_argument("--json", action="store_true", help="print a JSON list")

    show = _action(actions, "show", "show a run: its prompt, rounds, calls and answer", SHOW_EPILOG)
    _add_run(show)
    form = show.add_mutually_exclusive_group()
    form.add_argument("--full", action="store_true", help="do not shorten texts")
    form.add_argument("--json", action="store_true", help="print the export without its events")

    export = _action(actions, "export", "export a run as a JSON file", EXPORT_EPILOG)
    _add_run(export)
    completes_files(
        export.add_argument(
            "-o", "--output", type=Path, metavar="FILE", help="the file to write (default: stdout)"
        )
    )


def _configure_following(actions: Any) -> None:
    follow = _action(actions, "follow", "show an active run until it ends", FOLLOW_EPILOG)
    _add_run(follow)
    follow.add_argument(
        "--after", type=whole_number(), default=0, metavar="N", help="start after event number N"
    )
    add_output_options(follow)

    replay = _action(actions, "replay", "replay an exported run", REPLAY_EPILOG, log=False)
    completes_files(replay.add_argument("file", metavar="FILE", help="an export; -: read stdin"))
    replay.add_argument(
        "--speed",
        type=non_negative,
        default=1.0,
        metavar="X",
        help="speed factor (default: 1; 0: no pauses)",
    )
    replay.add_argument(
        "--max-pause",
        type=non_negative,
        metavar="S",
        help="maximum pause in seconds",
    )
    add_output_options(replay)


def _configure_resume(actions: Any) -> None:
    resume = _action(actions, "resume", "resume interrupted runs", RESUME_EPILOG)
    resume.add_argument(
        "ids", nargs="*", metavar="ID", help="the runs (default: all interrupted runs)"
    )
    completes_files(
        resume.add_argument(
            "--config", type=Path, metavar="FILE", help=f"default: {CONFIG_NAME} in this directory"
        )
    )
    add_tools_option(resume)
    resume.add_argument(
        "--model",
        metavar="NAME",
        help="provider/model, or a name from windlass.toml in this directory",
    )
    resume.add_argument(
        "--approve",
        choices=ANSWERS,
        help="the answer for tools that need approval (default: ask on a terminal, otherwise wait"
        " for `windlass runs approve`)",
    )
    resume.add_argument(
        "--force",
        action="store_true",
        help="also runs whose tools or model are missing: they end with an error",
    )
    add_output_options(resume)


def _configure_control(actions: Any) -> None:
    stop = _action(actions, "stop", "stop a run, in whichever process it is running", STOP_EPILOG)
    stop.add_argument("ids", nargs="+", metavar="ID", help="the runs")

    approve = _action(actions, "approve", "approve or deny a waiting call", APPROVE_EPILOG)
    _add_run(approve)
    approve.add_argument(
        "call",
        nargs="?",
        metavar="CALL",
        help="the id of the call (default: the only waiting call)",
    )
    approve.add_argument("--deny", action="store_true", help="deny the call")
    approve.add_argument(
        "--reason", metavar="TEXT", help="the reason; the model receives it with a denial"
    )
    approve.add_argument(
        "--arguments", type=json_object, metavar="JSON", help="approve with these arguments instead"
    )


def _configure_deleting(actions: Any) -> None:
    delete = _action(actions, "delete", "delete ended runs", DELETE_EPILOG)
    delete.add_argument("ids", nargs="+", metavar="ID", help="the runs")

    expire = _action(actions, "expire", "delete ended runs beyond a limit", EXPIRE_EPILOG)
    expire.add_argument(
        "--older-than",
        type=age,
        metavar="AGE",
        help="runs that ended longer ago: 90s, 15m, 12h, 30d",
    )
    expire.add_argument(
        "--keep", type=whole_number(), metavar="N", help="all but the newest N runs"
    )
    expire.add_argument(
        "--max-bytes",
        type=size,
        metavar="SIZE",
        help="the oldest runs beyond this size: 4096, 500k, 20M, 1G",
    )


def _action(
    actions: Any, name: str, text: str, epilog: str, *, log: bool = True
) -> argparse.ArgumentParser:
    action = add_action(actions, name, text, epilog)
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
    action.add_argument("id", metavar="ID", help="the id of the run, or the beginning of its id")


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError`, `RunNotFound` and `StorageError`."""
    with own_stdout() as output:
        return asyncio.run(_execute(options, output))


async def _execute(options: argparse.Namespace, output: CommandOutput) -> int:
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


async def _list(path: Path, options: argparse.Namespace, output: CommandOutput) -> int:
    async with open_log(path) as log:
        records = await log.list(chat=options.chat, open=True if options.open else None)
        wanted = [r for r in records if not options.failed or r.reason == "error"]
        some = wanted[: options.limit or None]
        interrupted = await log.cut_off()
        listed = [ListedRun(each, each.id in interrupted, await _end(log, each)) for each in some]
    if options.json:
        output.json(list_json(listed))
        return 0
    if not listed:
        say(f"no such run in {path}")
        return 0
    width = shutil.get_terminal_size().columns if output.is_terminal else PIPE_WIDTH
    heads, _, rows = list_table(listed, width).partition("\n")
    output.text(f"{coloured(heads, 'strong') if use_colour(output.is_terminal) else heads}\n{rows}")
    if len(some) < len(wanted):
        say(f"{len(some)} of {len(wanted)} runs; --limit 0 lists all")
    return 0


async def _end(log: RunLog, record: RunRecord) -> RunEnded | None:
    """The last event of an ended run; the other events are not read."""
    if record.reason is None:
        return None
    events = await log.read(record.id, record.events - 1)
    return events[-1] if events and isinstance(events[-1], RunEnded) else None


async def _show(path: Path, options: argparse.Namespace, output: CommandOutput) -> int:
    async with open_log(path) as log:
        record, events = await _read(log, options.id)
        interrupted = record.id in await log.cut_off()
    if options.json:
        output.json({k: v for k, v in _exported(record, events).items() if k != "events"})
        return 0
    texts = run_details(record, events, interrupted=interrupted, full=options.full)
    output.text("".join(rendered(text, output) for text in texts))
    return 0


async def _export(path: Path, given: str, target: Path | None, output: CommandOutput) -> int:
    async with open_log(path) as log:
        record, events = await _read(log, given)
    data = encode_json(_exported(record, events)) + b"\n"
    if target is None:
        output.bytes(data)
        return 0
    _write(target, data)
    say(f"exported {record.id} to {target}: {len(events)} events, {len(data)} bytes")
    return 0


def _write(target: Path, data: bytes) -> None:
    try:
        target.write_bytes(data)
    except OSError as error:
        raise ConfigError(f"cannot write {target}: {error.strerror}") from error


async def _read(log: RunLog, given: str) -> tuple[RunRecord, list[RunEvent]]:
    found = await find_run(log, given)
    events = await log.read(found.id)
    return await log.status(found.id), events


def _exported(record: RunRecord, events: Sequence[RunEvent]) -> dict[str, Any]:
    return exported(record, events, History(events).reply().messages)


async def _resume(path: Path, options: argparse.Namespace, output: CommandOutput) -> int:
    # Imported here: the other actions need no model and no gateway.
    from windlass.cli.runs.resuming import ResumeOptions, resume

    asks = options.approve is not None or sys.stderr.isatty()
    how = ResumeOptions(
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
        raise ConfigError("--arguments cannot be combined with --deny")
    order = Order(
        kind="approve",
        approved=not options.deny,
        arguments=options.arguments,
        reason=options.reason,
    )
    return await approve(path, options.id, options.call, order)


async def _delete(path: Path, given: Sequence[str]) -> int:
    async with open_log(path) as log:
        records = [await find_run(log, each) for each in given]
        for record in records:
            await log.delete(record.id)
            say(f"deleted {record.id}")
    return 0


async def _expire(path: Path, options: argparse.Namespace) -> int:
    retention = Retention(
        max_age=options.older_than, max_runs=options.keep, max_bytes=options.max_bytes
    )
    if retention == Retention():
        raise ConfigError("no limit: set --older-than, --keep or --max-bytes")
    async with open_log(path) as log:
        deleted = await log.expire(retention)
    say(f"deleted {deleted} {'run' if deleted == 1 else 'runs'}")
    return 0
