"""What `windlass runs` takes."""

import argparse
import math
import re
from pathlib import Path
from typing import Any

import msgspec

from windlass.cli.approvals import ANSWERS
from windlass.cli.completion import completes_files
from windlass.gateway.config import CONFIG_NAME

__all__ = ["configure"]

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

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


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
        "--limit", type=_count, default=20, metavar="N", help="how many (default: 20; 0: all)"
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
        "--after", type=_count, default=0, metavar="N", help="begin after event number N"
    )
    _add_forms(follow)

    replay = _action(actions, "replay", "play an exported run", REPLAY_EPILOG, log=False)
    completes_files(
        replay.add_argument("file", metavar="FILE", help="what export wrote; -: read from stdin")
    )
    replay.add_argument(
        "--speed",
        type=_amount,
        default=1.0,
        metavar="X",
        help="times as fast as it was (default: 1; 0: at once)",
    )
    replay.add_argument(
        "--max-pause",
        type=_amount,
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
        "--arguments", type=_object, metavar="JSON", help="run it with these arguments instead"
    )


def _configure_forgetting(actions: Any) -> None:
    delete = _action(actions, "delete", "forget ended runs wholly", DELETE_EPILOG)
    delete.add_argument("ids", nargs="+", metavar="ID", help="the runs")

    expire = _action(actions, "expire", "forget ended runs that are too many", EXPIRE_EPILOG)
    expire.add_argument(
        "--older-than", type=_age, metavar="AGE", help="that ended so long ago: 90s, 15m, 12h, 30d"
    )
    expire.add_argument("--keep", type=_count, metavar="N", help="beyond the newest N")
    expire.add_argument(
        "--max-bytes", type=_size, metavar="SIZE", help="beyond so much: 4096, 500k, 20M, 1G"
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


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more, not {text!r}")
    return int(text)


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not (math.isfinite(amount) and amount >= 0):
        raise argparse.ArgumentTypeError(f"must be a number, 0 or more, not {text!r}")
    return amount


def _age(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd])", text, re.IGNORECASE | re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"must be like 90s, 15m, 12h or 30d, not {text!r}")
    return float(found[1]) * _SECONDS[found[2].lower()]


def _size(text: str) -> int:
    found = re.fullmatch(r"([0-9]+)([kmg]?)b?", text, re.IGNORECASE | re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"must be like 4096, 500k, 20M or 1G, not {text!r}")
    return int(found[1]) * _BYTES[found[2].lower()]


def _object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise argparse.ArgumentTypeError(f"must be a JSON object: {error}") from error
