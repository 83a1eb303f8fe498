"""`windlass chat`: a conversation in the terminal, with tools."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from windlass.cli.arguments import completes_files, whole_number
from windlass.cli.chat.conversation import TerminalChat, read_messages
from windlass.cli.model_selection import add_mcp_option, choose_model, servers_from
from windlass.errors import ConfigError

DESCRIPTION = """\
A conversation with a model in the terminal. Each tool call is a card with its arguments, time and
result. Tools with approve=True ask you before they run."""

EPILOG = """\
examples:
  windlass chat
  windlass chat --model openai/gpt-5-mini --tools tools.py
  windlass chat --system "Answer in one sentence." --max-rounds 3
  windlass chat --resume chat.json       # written by /save chat.json

/help lists the commands. Ctrl-C stops an answer, not the chat; Ctrl-D exits. Without --model, the
chat uses WINDLASS_MODEL, the first model of windlass.toml, or a provider whose key is set. If the
model comes from windlass.toml, runs are stored in its [runs] path: see `windlass runs`."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("--model", metavar="M", help="provider/model, or a name from windlass.toml")
    tools = parser.add_argument(
        "--tools",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="files (tools.py) or modules (acme.tools) with tools",
    )
    completes_files(tools)
    add_mcp_option(parser)
    parser.add_argument("--system", metavar="TEXT", help="instructions for the model")
    parser.add_argument(
        "--max-rounds",
        type=whole_number(),
        metavar="N",
        help="maximum number of rounds with tools for an answer",
    )
    resume = parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="continue a saved chat"
    )
    completes_files(resume)


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError`, also without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(
            "a chat needs a terminal for its input and output; in scripts and pipes use"
            ' `windlass run "prompt"`'
        )
    try:
        from windlass.cli.chat.shell import chat_at_terminal
    except ModuleNotFoundError as error:
        raise ConfigError(f"the chat needs {error.name}: pip install 'windlass[cli]'") from error
    earlier = read_messages(options.resume) if options.resume else ()
    tools = [*options.tools, *servers_from(options.mcp)]
    conversation = TerminalChat(
        choose_model(options.model, tools),
        tool_files=tools,
        system=options.system,
        max_rounds=options.max_rounds,
    )
    conversation.resume(earlier)
    asyncio.run(_talk(conversation, chat_at_terminal))
    return 0


async def _talk(
    conversation: TerminalChat, chat: Callable[[TerminalChat], Awaitable[None]]
) -> None:
    try:
        await conversation.load()
        await chat(conversation)
    finally:
        await conversation.aclose()
