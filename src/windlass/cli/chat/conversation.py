"""A conversation with a model that can change on the way: what was said, and how it goes on."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from windlass.cli.model_selection import Chosen, choose_model, load_model, open_client
from windlass.client.options import RunOptions
from windlass.client.stream import AsyncStream
from windlass.content import Message, Usage
from windlass.errors import ConfigError
from windlass.gateway.config.values import McpConfig
from windlass.loop.approval import ApprovalHook
from windlass.loop.policy import Policy
from windlass.reply import Reply
from windlass.tool import Tool

_PATIENCE = 24 * 60 * 60.0
"""Seconds that an approval may take: whoever sits here answers when they are back."""

_NOT_HERE = "This tool is only declared: it cannot be run in this chat."


class Conversation:
    """What was said so far and the model that hears it. A failure leaves it as it was.

    Raises `ConfigError` for a model that cannot be used. `aclose` it: it owns connections.
    """

    def __init__(
        self,
        chosen: Chosen,
        *,
        tool_files: Sequence[str | McpConfig] = (),
        system: str | None = None,
        max_rounds: int | None = None,
    ) -> None:
        self.chosen = chosen
        self.system = chosen.config.system if system is None else system
        self._own_system = system is not None
        self.messages: tuple[Message, ...] = ()
        self.usage = Usage()
        """Of all replies together."""
        self.replies = 0
        self._client = open_client(chosen, chosen.runs)
        self._id = _new_id()
        self._tool_files = tuple(tool_files)
        self._max_rounds = max_rounds
        Policy(max_rounds=self.max_rounds)  # a number that cannot be is found now
        self._asked: tuple[tuple[Message, ...], Message] | None = None
        """The last question and what had been said before it."""

    @property
    def model(self) -> str:
        return self.chosen.config.target

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self.chosen.tools

    @property
    def max_rounds(self) -> int:
        configured = self.chosen.config.max_rounds
        return configured if self._max_rounds is None else self._max_rounds

    def stream(self, question: Message, approve: ApprovalHook) -> AsyncStream:
        """The run that answers the question; `remember` its reply."""
        self._asked = (self.messages, question)
        prompt = [*self.messages, question]
        options = RunOptions(
            system=self.system,
            max_rounds=self.max_rounds,
            on_limit="final_answer",
            approve=approve,
            approval_timeout=_PATIENCE,
        )
        return AsyncStream(lambda: self._client.launch(prompt, None, options, chat=self._id))

    def remember(self, reply: Reply) -> None:
        """Goes on from the reply. Calls of tools that nobody can run here are told so."""
        messages = reply.follow_up({call.id: _NOT_HERE for call in reply.pending})
        self.messages = tuple(m for m in messages if m.role != "system")
        self.usage += reply.usage
        self.replies += 1

    def taken_back(self) -> Message | None:
        """The last question, which is no longer part of what was said; None if there is none."""
        if self._asked is None:
            return None
        self.messages, question = self._asked
        return question

    def clear(self) -> None:
        """Forgets what was said. The model, its tools and the instructions stay."""
        self.messages, self._asked, self._id = (), None, _new_id()

    async def use(self, name: str) -> None:
        """Goes on with another model, and the same tools unless it is configured with its own.

        Raises `ConfigError`, and then nothing has changed.
        """
        chosen = choose_model(name, self._tool_files)
        chosen = msgspec.structs.replace(chosen, tools=chosen.tools or self.tools)
        client = open_client(chosen, chosen.runs)
        await load_model(client.model)
        former, self._client, self.chosen = self._client, client, chosen
        await former.aclose()

    async def load(self) -> None:
        """Loads the model, if it runs in this process. Raises `ConfigError`."""
        await load_model(self._client.model)

    async def aclose(self) -> None:
        await self._client.aclose()

    def save(self, file: Path) -> None:
        """Writes what was said. Raises `ConfigError`, also rather than overwrite something else."""
        instructions = (Message.system(self.system),) if self.system else ()
        write_messages(file.expanduser(), (*instructions, *self.messages))

    def resume(self, messages: Sequence[Message]) -> None:
        """Goes on from a conversation that was saved. Instructions of one's own stand over its."""
        for message in messages:
            if message.role == "system" and not self._own_system:
                self.system = message.text
        self.messages = tuple(m for m in messages if m.role != "system")
        questions = [at for at, m in enumerate(self.messages) if m.role == "user"]
        if questions:
            at = questions[-1]
            self._asked = (self.messages[:at], self.messages[at])


def _new_id() -> str:
    """The id under which the runs of one chat are kept."""
    return f"chat_{secrets.token_hex(12)}"


def write_messages(file: Path, messages: Sequence[Message]) -> None:
    """Raises `ConfigError` if it cannot be written, or holds something that is not a chat."""
    if file.exists():
        try:
            read_messages(file)
        except ConfigError as error:
            raise ConfigError(
                f"{file} is there and is not a saved chat: not overwritten"
            ) from error
    data = msgspec.json.encode([message.to_dict() for message in messages])
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_bytes(msgspec.json.format(data, indent=2) + b"\n")
        draft.replace(file)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from error


def read_messages(file: Path) -> tuple[Message, ...]:
    """The messages that `write_messages` wrote. Raises `ConfigError`."""
    try:
        items: list[dict[str, Any]] = msgspec.json.decode(
            file.read_bytes(), type=list[dict[str, Any]]
        )
        return tuple(Message.from_dict(item) for item in items)
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{file} is not a saved chat: {error}") from error
