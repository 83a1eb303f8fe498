"""`windlass chat`: a conversation at the terminal, with tools."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from windlass.cli.arguments import completes_files, whole_number
from windlass.cli.chat.conversation import Conversation, read_messages
from windlass.cli.model_selection import add_mcp_option, choose_model, servers_from
from windlass.errors import ConfigError

DESCRIPTION = """\
A conversation with a model at the terminal. Tools run as the model asks for them, each on a card
with its arguments, time and result; those with approve=True ask you first."""

EPILOG = """\
examples:
  windlass chat
  windlass chat --model openai/gpt-5-mini --tools tools.py
  windlass chat --system "Answer in one sentence." --max-rounds 3
  windlass chat --resume chat.json       # written by /save chat.json

/help lists the commands. Ctrl-C stops an answer and not the chat; Ctrl-D leaves. Without --model
it is WINDLASS_MODEL, the first model of windlass.toml, or one whose key is set. Runs are kept in
the [runs] path of the windlass.toml, where that is read: see `windlass runs`."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "--model", metavar="M", help="provider/model, or a name out of windlass.toml"
    )
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
        help="how many rounds of tools an answer may take",
    )
    resume = parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="go on with a saved chat"
    )
    completes_files(resume)


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError` for what cannot be talked with, and where nobody can talk."""
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
    conversation = Conversation(
        choose_model(options.model, tools),
        tool_files=tools,
        system=options.system,
        max_rounds=options.max_rounds,
    )
    conversation.resume(earlier)
    asyncio.run(_talk(conversation, chat_at_terminal))
    return 0


async def _talk(
    conversation: Conversation, chat: Callable[[Conversation], Awaitable[None]]
) -> None:
    try:
        await conversation.load()
        await chat(conversation)
    finally:
        await conversation.aclose()
