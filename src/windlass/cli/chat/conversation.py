"""The conversation of a chat: its messages, its model, and how it is saved and resumed."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from windlass.cli.model_selection import ModelChoice, choose_model, load_model, open_client
from windlass.client.options import RunOptions
from windlass.client.request import ClientRequest
from windlass.client.stream import AsyncStream
from windlass.content import Message, Usage
from windlass.errors import ConfigError
from windlass.gateway.config.values import McpConfig
from windlass.loop.approval import ApprovalHook
from windlass.loop.policy import Policy
from windlass.reply import Reply
from windlass.tool import Tool

APPROVAL_TIMEOUT = 24 * 60 * 60.0
"""Seconds. Long, because the user may be away from the terminal."""

NOT_RUNNABLE = "This tool is only declared: it cannot be run in this chat."


class TerminalChat:
    """The messages of a chat and its model. A failed run leaves both unchanged.

    Raises `ConfigError` for an unusable model. It owns connections: call `aclose`.
    """

    def __init__(
        self,
        chosen: ModelChoice,
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
        """The sum of all replies."""
        self.replies = 0
        self._client = open_client(chosen, chosen.runs)
        self._id = _new_id()
        self._tool_files = tuple(tool_files)
        self._max_rounds = max_rounds
        Policy(max_rounds=self.max_rounds)  # raises for an invalid number
        self._last: tuple[tuple[Message, ...], Message] | None = None
        """The messages before the last question, and the question."""

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
        """The run that answers the question. Pass its reply to `remember`."""
        self._last = (self.messages, question)
        prompt = [*self.messages, question]
        options = RunOptions(
            system=self.system,
            max_rounds=self.max_rounds,
            on_limit="final_answer",
            approve=approve,
            approval_timeout=APPROVAL_TIMEOUT,
        )
        request = ClientRequest(prompt, options=options)
        return AsyncStream(lambda: self._client.launch(request, self._id))

    def remember(self, reply: Reply) -> None:
        """Continues after the reply. A call of a tool that cannot run here receives an error."""
        messages = reply.follow_up({call.id: NOT_RUNNABLE for call in reply.pending})
        self.messages = tuple(m for m in messages if m.role != "system")
        self.usage += reply.usage
        self.replies += 1

    def take_back(self) -> Message | None:
        """Removes the last question and its answer; returns the question, or None."""
        if self._last is None:
            return None
        self.messages, question = self._last
        return question

    def clear(self) -> None:
        """Removes all messages. The model, its tools and the instructions stay."""
        self.messages, self._last, self._id = (), None, _new_id()

    async def use(self, name: str) -> None:
        """Switches to another model; the tools stay unless the model has its own.

        Raises `ConfigError` and then changes nothing.
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
        """Writes the messages. Raises `ConfigError`, also if the file contains something else."""
        instructions = (Message.system(self.system),) if self.system else ()
        write_messages(file.expanduser(), (*instructions, *self.messages))

    def resume(self, messages: Sequence[Message]) -> None:
        """Continues a saved conversation. `--system` overrides its instructions."""
        for message in messages:
            if message.role == "system" and not self._own_system:
                self.system = message.text
        self.messages = tuple(m for m in messages if m.role != "system")
        questions = [at for at, m in enumerate(self.messages) if m.role == "user"]
        if questions:
            at = questions[-1]
            self._last = (self.messages[:at], self.messages[at])


def _new_id() -> str:
    """The id of a chat in stored runs."""
    return f"chat_{secrets.token_hex(12)}"


def write_messages(file: Path, messages: Sequence[Message]) -> None:
    """Raises `ConfigError` if the file cannot be written or contains something else."""
    if file.exists():
        try:
            read_messages(file)
        except ConfigError as error:
            raise ConfigError(f"not overwritten: {file} exists and is not a saved chat") from error
    data = msgspec.json.encode([message.to_dict() for message in messages])
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_bytes(msgspec.json.format(data, indent=2) + b"\n")
        draft.replace(file)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from error


def read_messages(file: Path) -> tuple[Message, ...]:
    """The messages of a saved chat. Raises `ConfigError`."""
    try:
        items: list[dict[str, Any]] = msgspec.json.decode(
            file.read_bytes(), type=list[dict[str, Any]]
        )
        return tuple(Message.from_dict(item) for item in items)
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{file} is not a saved chat: {error}") from error
