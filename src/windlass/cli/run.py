"""`windlass run`: sends one prompt and prints the answer."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TextIO

from windlass.cli.approvals import ANSWERS, approval_hook
from windlass.cli.arguments import completes_files, seconds, whole_number
from windlass.cli.formatting import Executing, reply_to_dict
from windlass.cli.model_selection import (
    Chosen,
    add_mcp_option,
    choose_model,
    load_model,
    open_client,
    servers_from,
)
from windlass.cli.output import Output, cut, one_line, own_stdout, visible
from windlass.client import AsyncRun
from windlass.content import FunctionCall, FunctionResponse, Part, Usage, guessed_type
from windlass.errors import ConfigError, RoundLimitExceeded
from windlass.events import (
    ApprovalResolved,
    Outcome,
    RoundStarted,
    RunEnded,
    RunEvent,
    Status,
    StopReason,
    TextDelta,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
    event_to_json_bytes,
)
from windlass.settings import MODES

_LONGEST_SHOWN = 160


class Answer(Protocol):
    """One form of the answer on stdout."""

    def take(self, event: RunEvent) -> None:
        """Writes what there is to write of the event."""
        ...

    def end(self, run: AsyncRun) -> None:
        """Writes what is left when the run has ended, however it ended."""
        ...


class StreamedText:
    """The model's text as it comes, and nothing else. What several rounds say is on lines apart."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._shown: Callable[[str], str] = visible if output.is_terminal else str
        self._line_is_open = False

    def take(self, event: RunEvent) -> None:
        match event:
            case TextDelta(text=text) if text:
                self._output.text(self._shown(text))
                self._line_is_open = not text.endswith("\n")
            case Status() | RoundStarted() | ToolRunStarted() | ToolRunEnded() | RunEnded():
                self._close_line()
            case _:
                pass

    def end(self, run: AsyncRun) -> None:
        self._close_line()

    def _close_line(self) -> None:
        if self._line_is_open:
            self._output.text("\n")
            self._line_is_open = False


class EventLines:
    """Every event of the run, as one line of JSON."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def take(self, event: RunEvent) -> None:
        self._output.bytes(event_to_json_bytes(event) + b"\n")

    def end(self, run: AsyncRun) -> None:
        """The last event has said it."""


class JsonObject:
    """One object when all is over. A run that failed has its error in place of an answer."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def take(self, event: RunEvent) -> None:
        """Nothing is written before the end."""

    def end(self, run: AsyncRun) -> None:
        if run.error is None:
            self._output.json(reply_to_dict(run.reply))
        else:
            self._output.json({"stop_reason": reason_of(run), "error": str(run.error)})


def reason_of(run: AsyncRun) -> StopReason:
    """Why an ended run ended. A limit is one, also where it is configured to be an error."""
    if isinstance(run.error, RoundLimitExceeded):
        return "max_rounds"
    return run.stop_reason or "stopped"


class Narrator:
    """Tells a person what the run does: a line for each tool that has run, and at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._calls: dict[str, FunctionCall] = {}
        self._executing = Executing()

    def tell(self, event: RunEvent) -> None:
        if words := self._executing.said(event):
            self.say(words)
        match event:
            case ToolRunStarted(call=call):
                self._calls[call.id] = call
            case ToolRunProgress(name=name, progress=done, message=message):
                share = "" if done is None else f" {done:.0%}"
                self.say(f"  {name}:{share} {message or ''}".rstrip())
            case ToolRunEnded(response=response, outcome=outcome, seconds=seconds):
                doubt = "; it may have had its effect" if event.effect_unknown else ""
                where = "; see the traceback above" if event.crashed else ""
                how = f"{_HOW[outcome]}{doubt}{where}, {seconds:.2f} s"
                self.say(f"  {self._called(response)} -> {_result(response)} ({how})")
            case ApprovalResolved(approved=True, call_id=call_id):
                self.say(f"  {self._name(call_id)}: approved")
            case RunEnded(reason="error", usage=Usage(total_tokens=0)):
                pass  # nothing was used, and the error follows
            case RunEnded(usage=usage, rounds=rounds):
                self.say(
                    f"{usage.input_tokens} tokens in, {usage.output_tokens} out,"
                    f" {rounds} {'round' if rounds == 1 else 'rounds'}"
                )
            case _:
                pass

    def say(self, line: str) -> None:
        self._stream.write(f"{visible(line)}\n")
        self._stream.flush()

    def _name(self, call_id: str) -> str:
        return self._calls[call_id].name if call_id in self._calls else call_id

    def _called(self, response: FunctionResponse) -> str:
        call = self._calls.get(response.id)
        return f"{response.name} {_short(call.json) if call else ''}".rstrip()


_HOW: dict[Outcome, str] = {
    "ok": "ok",
    "error": "failed",
    "invalid_arguments": "arguments that do not fit",
    "unknown_tool": "no such tool",
    "timeout": "timed out",
    "denied": "denied",
    "stopped": "stopped",
    "interrupted": "interrupted",
    "not_run": "not run",
}


def _result(response: FunctionResponse) -> str:
    return _short(response.text if response.error is None else response.error)


def _short(text: str) -> str:
    return cut(one_line(text), _LONGEST_SHOWN)


DESCRIPTION = """\
Asks a model, runs the tools that it asks for, and writes its answer to stdout as it comes.
Everything else goes to stderr: what is being done, each tool with its result, the tokens used."""

EPILOG = """\
examples:
  windlass run "What is the weather in Paris?" --tools tools.py
  windlass run --model gemini/gemini-2.5-flash < question.txt
  git diff | windlass run --system "Write a commit message for this diff." -q
  windlass run "What is on it?" --image photo.jpg
  windlass run "Weather in Oslo?" --tools tools.py --json | jq .calls
  windlass run "What is in notes.md?" --mcp "npx -y @modelcontextprotocol/server-filesystem ."

The model is --model, else WINDLASS_MODEL, else the first one of the windlass.toml here (with its
tools), else that of the first provider whose key is set, else the embedded one, if installed.

Runs are kept in the [runs] path of the windlass.toml, where that is read: see `windlass runs`.

--json writes one object when all is over: text, calls, results, usage, rounds, stop_reason,
messages, model. --events writes one JSON event a line, as they come.

exit codes:
  0    an answer
  1    the model or the run failed
  2    the command or the configuration is wrong
  3    the run ended without a full answer; stderr says why (length, max_rounds, deadline, ...)
  130  Ctrl-C: the run was stopped"""

ENDINGS: dict[StopReason, tuple[int, str]] = {
    "answer": (0, ""),
    "calls": (3, "the model called a tool that is only declared: there is nothing to run"),
    "max_rounds": (3, "the limit of rounds was reached; --max-rounds sets it"),
    "repetition": (3, "the model kept repeating a call that keeps failing"),
    "length": (3, "the model's output limit cut the answer"),
    "content_filter": (3, "the provider withheld the answer"),
    "malformed_call": (3, "the provider could not read its own model's call"),
    "deadline": (3, "the time was up; --timeout sets it"),
    "stopped": (130, "what was known is above"),
    "error": (1, "the run failed"),
}
"""The exit code of each way to end, and what is said about it."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "prompt", nargs="?", metavar="PROMPT", help="what to ask; - or a pipe: read from stdin"
    )
    completes_files(
        parser.add_argument(
            "--tools",
            action="append",
            default=[],
            metavar="FILE",
            help="a file (tools.py) or module (acme.tools) with tools; may be given again",
        )
    )
    add_mcp_option(parser)
    parser.add_argument(
        "--model", metavar="NAME", help="provider/model, or a name of the windlass.toml here"
    )
    parser.add_argument("--system", metavar="TEXT", help="what the model is told first")
    parser.add_argument(
        "--max-rounds",
        type=whole_number(),
        metavar="N",
        help="how often tools may be run (default: 5)",
    )
    parser.add_argument(
        "--mode", choices=MODES, help="how tools are brought to the model (default: auto)"
    )
    parser.add_argument(
        "--approve",
        choices=ANSWERS,
        help="what to say to tools that ask first (default: ask on a terminal, else no)",
    )
    parser.add_argument(
        "--timeout", type=seconds, metavar="S", help="seconds that the whole run may take"
    )
    completes_files(
        parser.add_argument(
            "--image",
            action="append",
            default=[],
            type=Path,
            metavar="FILE",
            help="an image to show the model; may be given again",
        )
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write one JSON object at the end")
    form.add_argument("--events", action="store_true", help="write each event as a line of JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="only errors go to stderr")


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError` for what cannot work, and what the run fails with."""
    prompt = [*(_image(path) for path in options.image), _prompt(options.prompt)]
    form = JsonObject if options.json else EventLines if options.events else StreamedText
    with own_stdout() as output, _log_kept_to_errors(options.quiet):
        chosen = choose_model(options.model, [*options.tools, *servers_from(options.mcp)])
        narrator = None if options.quiet else Narrator(sys.stderr)
        if narrator:
            narrator.say(_introduction(chosen))
        return asyncio.run(_answered(options, chosen, prompt, form(output), narrator))


async def _answered(
    options: argparse.Namespace,
    chosen: Chosen,
    prompt: list[Any],
    answer: Answer,
    narrator: Narrator | None,
) -> int:
    def show(event: RunEvent) -> None:
        answer.take(event)
        if narrator:
            narrator.tell(event)

    client = open_client(
        chosen,
        chosen.runs,
        system=options.system,
        mode=options.mode,
        max_rounds=options.max_rounds,
        timeout=options.timeout,
        approve=approval_hook(options.approve),
    )
    async with client:
        await load_model(client.model, quiet=options.quiet)
        run = await client.start(prompt)
        await _follow(run, show)
        answer.end(run)
    return _exit_code(run)


async def _follow(run: AsyncRun, show: Callable[[RunEvent], None]) -> None:
    """Shows the run to its end. An interruption stops it, and shows what became of its tools."""
    seen = 0
    try:
        async for event in run.events():
            seen = event.seq
            show(event)
    except asyncio.CancelledError:
        await run.stop()
        async for event in run.events(seen):
            show(event)


def _exit_code(run: AsyncRun) -> int:
    reason = reason_of(run)
    if reason == "error" and run.error is not None:
        raise run.error
    code, words = ENDINGS[reason]
    if code:
        sys.stderr.write(f"windlass: no full answer: {reason}: {words}\n")
    return code


@contextmanager
def _log_kept_to_errors(quiet: bool) -> Generator[None]:
    """Who wants quiet does not want the library's warnings either."""
    log = logging.getLogger("windlass")
    level = log.level
    log.setLevel(logging.ERROR if quiet else level)
    try:
        yield
    finally:
        log.setLevel(level)


def _introduction(chosen: Chosen) -> str:
    names = ", ".join(tool.name for tool in chosen.tools) or "none"
    return f"{chosen.config.target} ({chosen.because}); tools: {names}"


def _prompt(given: str | None) -> str:
    if given is not None and given != "-":
        return given
    if given is None and sys.stdin.isatty():
        raise ConfigError('there is no prompt: write windlass run "...", or pipe one into it')
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _image(path: Path) -> Part:
    kind = guessed_type(path.name) or ""
    if not kind.startswith("image/"):
        raise ConfigError(
            f"--image: {path} is no image by its name, such as photo.png or photo.jpg"
        )
    try:
        return Part.from_bytes(path.read_bytes(), kind)
    except OSError as error:
        raise ConfigError(f"--image: cannot read {path}: {error.strerror}") from error
