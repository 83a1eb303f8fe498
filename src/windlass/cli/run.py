"""`windlass run`: sends one prompt, executes tools, and prints the answer."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TextIO

from windlass.cli.approvals import ANSWERS, approval_hook
from windlass.cli.arguments import (
    add_output_options,
    add_tools_option,
    completes_files,
    seconds,
    whole_number,
)
from windlass.cli.exit_codes import INTERRUPTED, ending_text, exit_code
from windlass.cli.formatting import (
    ExecutingStatus,
    duration,
    outcome_notes,
    reply_to_dict,
    shortened,
    tokens,
)
from windlass.cli.model_selection import (
    ModelChoice,
    add_mcp_option,
    choose_model,
    load_model,
    open_client,
    servers_from,
)
from windlass.cli.output import CommandOutput, own_stdout, visible
from windlass.client import AsyncRun
from windlass.content import FunctionCall, FunctionResponse, Part, Usage, guessed_type
from windlass.errors import BudgetExceeded, ConfigError, RoundLimitExceeded
from windlass.events import (
    ApprovalResolved,
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

DESCRIPTION = """\
Asks a model, executes the tools that it calls, and prints its answer to stdout while the model
writes it. Everything else goes to stderr: the status, each tool with its result, the tokens."""

EPILOG = """\
examples:
  windlass run "What is the weather in Paris?" --tools tools.py
  windlass run --model gemini/gemini-2.5-flash < question.txt
  git diff | windlass run --system "Write a commit message for this diff." -q
  windlass run "What is on it?" --image photo.jpg
  windlass run "Weather in Oslo?" --tools tools.py --json | jq .calls
  windlass run "What is in notes.md?" --mcp "npx -y @modelcontextprotocol/server-filesystem ."

The model is the first of these: --model, WINDLASS_MODEL, the first model of windlass.toml in this
directory (with its tools), the first provider whose key is set, the embedded model if installed.

If the model comes from windlass.toml, the run is stored in its [runs] path: see `windlass runs`.

--json prints one object at the end: text, calls, results, usage, rounds, stop_reason, messages,
model. --events prints each event as a line of JSON when it happens.

exit codes:
  0    an answer
  1    the model or the run failed
  2    the command or the configuration is wrong
  3    the run ended without a full answer; stderr shows why (length, max_rounds, budget, ...)
  130  Ctrl-C: the run was stopped"""

LIMIT_OPTIONS = ("--max-rounds", "--timeout", "--max-tokens-total")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "prompt", nargs="?", metavar="PROMPT", help="the prompt; -, or none in a pipe: read stdin"
    )
    add_tools_option(parser)
    add_mcp_option(parser)
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="provider/model, or a name from windlass.toml in this directory",
    )
    parser.add_argument("--system", metavar="TEXT", help="the system message")
    parser.add_argument(
        "--max-rounds",
        type=whole_number(),
        metavar="N",
        help="maximum number of rounds with tools (default: 5)",
    )
    parser.add_argument(
        "--mode", choices=MODES, help="how the model receives tools (default: auto)"
    )
    parser.add_argument(
        "--approve",
        choices=ANSWERS,
        help="the answer for tools that need approval (default: ask on a terminal, otherwise no)",
    )
    parser.add_argument(
        "--timeout", type=seconds, metavar="S", help="time limit of the whole run in seconds"
    )
    parser.add_argument(
        "--max-tokens-total",
        type=whole_number(1),
        metavar="N",
        help="budget of tokens of the run, input and output",
    )
    parser.add_argument(
        "--max-cost", metavar="COST", help="budget of the cost of the run; it needs prices"
    )
    prices = parser.add_argument(
        "--prices", metavar="FILE", help="a TOML or JSON file with the prices of models"
    )
    completes_files(prices)
    completes_files(
        parser.add_argument(
            "--image",
            action="append",
            default=[],
            type=Path,
            metavar="FILE",
            help="an image for the model; can be repeated",
        )
    )
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError`, and the error of a failed run."""
    prompt = [*(_image(path) for path in options.image), _prompt(options.prompt)]
    form = JsonAnswer if options.json else EventLines if options.events else StreamedText
    with own_stdout() as output, _log_level(options.quiet):
        chosen = choose_model(options.model, [*options.tools, *servers_from(options.mcp)])
        narrator = None if options.quiet else Narrator(sys.stderr)
        if narrator:
            narrator.write(_introduction(chosen))
        return asyncio.run(_answer(options, chosen, prompt, form(output), narrator))


class AnswerOutput(Protocol):
    """A form of the answer on stdout."""

    def add(self, event: RunEvent) -> None: ...

    def end(self, run: AsyncRun) -> None:
        """Writes the rest of an ended run."""
        ...


class StreamedText:
    """The model's text while it arrives. The texts of different rounds are on separate lines."""

    def __init__(self, output: CommandOutput) -> None:
        self._output = output
        self._safe: Callable[[str], str] = visible if output.is_terminal else str
        self._line_is_open = False

    def add(self, event: RunEvent) -> None:
        match event:
            case TextDelta(text=text) if text:
                self._output.text(self._safe(text))
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
    """Each event as a line of JSON."""

    def __init__(self, output: CommandOutput) -> None:
        self._output = output

    def add(self, event: RunEvent) -> None:
        self._output.bytes(event_to_json_bytes(event) + b"\n")

    def end(self, run: AsyncRun) -> None:
        pass


class JsonAnswer:
    """One object at the end. For a failed run it contains the error instead of an answer."""

    def __init__(self, output: CommandOutput) -> None:
        self._output = output

    def add(self, event: RunEvent) -> None:
        pass

    def end(self, run: AsyncRun) -> None:
        if run.error is None:
            self._output.json(reply_to_dict(run.reply))
        else:
            self._output.json({"stop_reason": stop_reason_of(run), "error": str(run.error)})


class Narrator:
    """Writes lines about the run: each status, each tool with its result, and the totals."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._calls: dict[str, FunctionCall] = {}
        self._status = ExecutingStatus()

    def add(self, event: RunEvent) -> None:
        if status := self._status.text_for(event):
            self.write(status)
        match event:
            case ToolRunStarted(call=call):
                self._calls[call.id] = call
            case ToolRunProgress(name=name, progress=done, message=message):
                share = "" if done is None else f" {done:.0%}"
                self.write(f"  {name}:{share} {message or ''}".rstrip())
            case ToolRunEnded():
                self.write(self._tool_result(event))
            case ApprovalResolved(approved=True, call_id=call_id):
                name = self._calls[call_id].name if call_id in self._calls else call_id
                self.write(f"  {name}: approved")
            case RunEnded(reason="error", usage=Usage(total_tokens=0)):
                pass  # the error follows
            case RunEnded(usage=usage, rounds=rounds):
                self.write(f"{tokens(usage)}, {rounds} {'round' if rounds == 1 else 'rounds'}")
            case _:
                pass

    def write(self, line: str) -> None:
        self._stream.write(f"{visible(line)}\n")
        self._stream.flush()

    def _tool_result(self, event: ToolRunEnded) -> str:
        response = event.response
        notes = outcome_notes(event.outcome, event, traceback="see the traceback above")
        how = ", ".join([*notes, duration(event.seconds)])
        result = shortened(response.text if response.error is None else response.error)
        return f"  {self._call(response)} -> {result} ({how})"

    def _call(self, response: FunctionResponse) -> str:
        call = self._calls.get(response.id)
        return f"{response.name} {shortened(call.json) if call else ''}".rstrip()


async def _answer(
    options: argparse.Namespace,
    chosen: ModelChoice,
    prompt: list[Any],
    answer: AnswerOutput,
    narrator: Narrator | None,
) -> int:
    def show(event: RunEvent) -> None:
        answer.add(event)
        if narrator:
            narrator.add(event)

    client = open_client(
        chosen,
        chosen.runs,
        system=options.system,
        mode=options.mode,
        max_rounds=options.max_rounds,
        timeout=options.timeout,
        max_tokens_total=options.max_tokens_total,
        max_cost=options.max_cost,
        prices=options.prices,
        approve=approval_hook(options.approve),
    )
    async with client:
        await load_model(client.model, quiet=options.quiet)
        run = await client.start(prompt)
        interrupted = await _follow(run, show)
        answer.end(run)
    code = _report(run)
    return INTERRUPTED if interrupted else code


async def _follow(run: AsyncRun, show: Callable[[RunEvent], None]) -> bool:
    """Shows the run to its end; returns whether Ctrl-C stopped it."""
    seen = 0
    try:
        async for event in run.events():
            seen = event.seq
            show(event)
    except asyncio.CancelledError:
        await run.stop()
        async for event in run.events(seen):
            show(event)
        return True
    return False


def _report(run: AsyncRun) -> int:
    """Writes why there is no full answer; returns the exit code. Raises a failed run's error."""
    reason = stop_reason_of(run)
    if reason == "error" and run.error is not None:
        raise run.error
    if text := ending_text(reason, options=LIMIT_OPTIONS):
        sys.stderr.write(f"windlass: {text}\n")
    return exit_code(reason)


def stop_reason_of(run: AsyncRun) -> StopReason:
    """Why the run ended. A limit is its own reason, also with `on_limit="error"`."""
    if isinstance(run.error, RoundLimitExceeded):
        return "max_rounds"
    if isinstance(run.error, BudgetExceeded):
        return "budget"
    return run.stop_reason or "stopped"


@contextmanager
def _log_level(quiet: bool) -> Generator[None]:
    """With `quiet`, the library logs only errors."""
    log = logging.getLogger("windlass")
    level = log.level
    log.setLevel(logging.ERROR if quiet else level)
    try:
        yield
    finally:
        log.setLevel(level)


def _introduction(chosen: ModelChoice) -> str:
    names = ", ".join(tool.name for tool in chosen.tools) or "none"
    return f"{chosen.config.target} ({chosen.because}); tools: {names}"


def _prompt(given: str | None) -> str:
    if given is not None and given != "-":
        return given
    if given is None and sys.stdin.isatty():
        raise ConfigError('no prompt: write windlass run "...", or pipe a prompt to it')
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _image(path: Path) -> Part:
    kind = guessed_type(path.name) or ""
    if not kind.startswith("image/"):
        raise ConfigError(
            f"--image: {path} does not have the name of an image, such as photo.png or photo.jpg"
        )
    try:
        return Part.from_bytes(path.read_bytes(), kind)
    except OSError as error:
        raise ConfigError(f"--image: cannot read {path}: {error.strerror}") from error
