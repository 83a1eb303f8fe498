"""A chat without a terminal: keys come from a pipe, and the output goes to a text."""

import asyncio
import io
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from windlass.cli.chat.conversation import TerminalChat
from windlass.cli.chat.shell import Shell, SlashCommands
from windlass.cli.chat.terminal import InputPrompt, LogRecorder
from windlass.cli.model_selection import ModelChoice
from windlass.gateway.config import ModelConfig
from windlass.testing import FakeOpenAI
from windlass.tool import as_tools

CTRL_C, CTRL_D, ALT_ENTER = "\x03", "\x04", "\x1b\r"
SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class Talk:
    """A chat that is over."""

    conversation: TerminalChat
    fake: FakeOpenAI
    written: str
    """The whole output, with the control sequences of the terminal."""

    @property
    def shown(self) -> str:
        return SEQUENCE.sub("", self.written)

    def asked(self, request: int) -> list[dict[str, Any]]:
        """The messages of that request to the model."""
        return self.fake.requests[request].body["messages"]


def chosen(fake: FakeOpenAI, tools: Sequence[Any] = (), **fields: Any) -> ModelChoice:
    config = ModelConfig(
        name="test", target="openai/gpt-test", base_url=fake.base_url, mode="native", **fields
    )
    return ModelChoice(config, "the test says so", tuple(as_tools(tools)))


@asynccontextmanager
async def conversing(
    fake: FakeOpenAI, tools: Sequence[Any] = (), **options: Any
) -> AsyncIterator[TerminalChat]:
    conversation = TerminalChat(chosen(fake, tools), **options)
    try:
        yield conversation
    finally:
        await conversation.aclose()


async def talk(
    script: Any,
    keys: str,
    *,
    tools: Sequence[Any] = (),
    before: Callable[[TerminalChat], None] = lambda conversation: None,
    **options: Any,
) -> Talk:
    """Types the keys into a chat with a scripted model. The last keys must leave the chat."""
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80, height=30, highlight=False)
    with FakeOpenAI(script) as fake, create_pipe_input() as pipe:
        async with conversing(fake, tools, **options) as conversation:
            before(conversation)
            prompt = InputPrompt(SlashCommands.TABLE, pipe, DummyOutput())
            pipe.send_bytes(keys.encode("utf-8", "surrogateescape"))
            async with asyncio.timeout(120):
                await Shell(conversation, console, prompt, LogRecorder()).converse()
            return Talk(conversation, fake, written.getvalue())
