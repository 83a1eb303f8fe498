"""What a run was started with: stored, so that a resumed run is planned in the same way. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.content import Declaration, FunctionDeclaration, GoogleSearch, ProviderTool
from windlass.errors import ConfigError, RunInterrupted
from windlass.loop.policy import ANSWER_REASONS, Policy
from windlass.model import Settings
from windlass.output.spec import Accepted, OutputSpec
from windlass.reply import Reply
from windlass.runs.records import RunRecord
from windlass.settings import Mode
from windlass.tool import Tool, ToolOptions

ADDED: Literal["added"] = "added"
"""The kind of a record that stores an addition to a chat, without a request to the model."""


class Offer(Struct, frozen=True):
    """The tools of a run by name, and their declarations for the model."""

    tools: Mapping[str, Tool] = {}
    declarations: tuple[Declaration, ...] = ()


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that a run was started with, except functions, hooks and connections."""

    kind: Literal["client", "gateway", "added"] = "client"
    """Which face of the run service started it, and may resume it; or `ADDED`."""
    policy: Policy
    settings: Settings = Settings()
    extra: dict[str, Any] = {}
    mode: Mode | None = None
    live: bool = False
    tools: tuple[str, ...] = ()
    """The names of the offered tools, in order. A resumed run looks up its tools by these names."""
    declared: tuple[FunctionDeclaration, ...] = ()
    """The tools that the caller runs."""
    provider_tools: tuple[ProviderTool, ...] = ()
    """The tools that the model's provider runs."""
    google_search: bool = False
    approve: tuple[str, ...] = ()
    """The names of the tools that need an approval."""
    approvable: bool = False
    """Whether a client can approve calls, though the run is not live."""
    needs_client: bool = False
    """Whether the run stops when its waiting client disconnects. No process resumes it."""
    session: str = ""
    """The worker session that the request named."""
    wire: str = ""
    """The protocol of the request; empty for a run of a Python client."""
    answer: dict[str, Any] = {}
    """What that protocol needs to write the answer."""
    output: OutputSpec | None = None
    """What the answer must be; None means any text."""
    replaced_from: int = 0
    """The number of the first run that this run replaced; 0 if none, or if it has no number."""
    replaced_since: float = 0.0
    """The start time of that run; 0 if none."""

    def with_tools(self, tools: Mapping[str, Tool]) -> "Origin":
        """Returns the origin of a run with these tools."""
        declared = [tool.declaration for tool in tools.values() if not tool.runnable]
        return replace(
            self,
            tools=tuple(tools),
            declared=tuple(each for each in declared if isinstance(each, FunctionDeclaration)),
            provider_tools=tuple(each for each in declared if isinstance(each, ProviderTool)),
            google_search=any(isinstance(each, GoogleSearch) for each in declared),
            approve=tuple(name for name, tool in tools.items() if tool.options.approve),
        )

    def stored(self) -> dict[str, Any]:
        """Returns the stored form, as JSON values."""
        # The default of `kind` is omitted too, but records are selected by it.
        return {"kind": self.kind, **msgspec.to_builtins(self, enc_hook=str)}

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> "Origin":
        """Reads the stored form. Raises `RunInterrupted` if it is invalid."""
        if fields.get("kind") == ADDED:  # older versions stored nothing else
            fields = {"policy": {}, **fields}
        try:
            return msgspec.convert(fields, cls)
        except (msgspec.ValidationError, ConfigError) as error:
            raise RunInterrupted(f"the run's record cannot be read: {error}") from error

    def offer(self, known: Mapping[str, Tool]) -> tuple[Offer, list[str]]:
        """Returns the tools that the run was started with, and the names of missing ones."""
        found = {**known, **self._unrun()}
        tools = {name: found[name] for name in self.tools if name in found}
        offer = Offer(tools, tuple(tool.declaration for tool in tools.values()))
        return offer, [name for name in self.tools if name not in found]

    def outline(self) -> Mapping[str, Tool]:
        """The tools by name without their functions: who runs each, and which need an approval."""
        unrun = self._unrun()
        return {
            name: unrun.get(name) or _runnable(name, name in self.approve) for name in self.tools
        }

    def _unrun(self) -> dict[str, Tool]:
        """The tools that the caller or the provider runs."""
        markers = [GoogleSearch()] if self.google_search else []
        tools = [Tool(each) for each in (*self.declared, *self.provider_tools, *markers)]
        return {tool.name: tool for tool in tools}


def _runnable(name: str, approve: bool) -> Tool:
    return Tool(FunctionDeclaration(name), _nothing, options=ToolOptions(approve=approve))


def _nothing() -> None:
    """Replaces the function of a tool that only outlines a run."""


def with_stored_output(record: RunRecord, reply: Reply) -> Reply:
    """Returns the reply of an ended run with its output as a JSON value, if it has a type."""
    output = Origin.read(record.origin).output if "output" in record.origin else None
    if output is None:
        return reply
    if reply.stop_reason not in ANSWER_REASONS:
        return replace(reply, has_output=False)
    from windlass.output.value import stored_type

    answer = stored_type(output)
    if reply.stop_reason == "budget":  # the budget of a key ends a run before its answer
        outcome = answer.read(reply.text)
        if not isinstance(outcome, Accepted):
            return replace(reply, has_output=False)
    return replace(reply, typed=answer.stored(reply.text))


def shown_chars(record: RunRecord) -> int:
    """The run's `max_result_chars`."""
    return record.origin.get("policy", {}).get("max_result_chars", Policy().max_result_chars)
