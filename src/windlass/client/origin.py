"""The stored plan of a run, from which it is planned again when it is resumed. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from windlass.client.options import Offer
from windlass.content import FunctionDeclaration
from windlass.errors import ConfigError, RunInterrupted
from windlass.loop.loop import RunPlan
from windlass.loop.policy import Policy
from windlass.model import Settings
from windlass.runs.records import RunRecord
from windlass.settings import Mode
from windlass.tool import Tool

KIND = "client"
ADDED = "added"
"""The kind of a record that stores an addition to a chat, without a request to the model."""


class Origin(Struct, kw_only=True, omit_defaults=True, tag_field="kind", tag=KIND):
    """The plan of a run without functions, hooks and connections, which cannot be stored."""

    tools: list[str] = []
    """The names of the offered tools, in order. A resumed run finds its tools by these names."""
    declared: list[FunctionDeclaration] = []
    """The tools that the caller runs."""
    policy: Policy = Policy()
    settings: Settings = Settings()
    extra: dict[str, Any] = {}
    mode: Mode | None = None
    live: bool = True

    @classmethod
    def of(cls, plan: RunPlan, mode: Mode | None) -> "dict[str, Any]":
        """Returns the stored form of a plan, as JSON values."""
        origin = cls(
            tools=list(plan.tools),
            declared=[
                tool.declaration
                for tool in plan.tools.values()
                if not tool.runnable and isinstance(tool.declaration, FunctionDeclaration)
            ],
            policy=plan.policy,
            settings=plan.settings,
            extra=plan.extra,
            mode=mode,
            live=plan.live,
        )
        return msgspec.to_builtins(origin, enc_hook=str)

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> "Origin":
        """Reads the stored form. Raises `RunInterrupted` if it is invalid."""
        try:
            return msgspec.convert(fields, cls)
        except (msgspec.ValidationError, ConfigError) as error:
            raise RunInterrupted(f"the run's record is invalid: {error}") from error

    def offer(self, known: Mapping[str, Tool]) -> tuple[Offer, list[str]]:
        """Returns the tools that the run was started with, and the names of missing ones."""
        declared = {declaration.name: Tool(declaration) for declaration in self.declared}
        found = {**known, **declared}
        tools = {name: found[name] for name in self.tools if name in found}
        offer = Offer(tools, tuple(tool.declaration for tool in tools.values()))
        return offer, [name for name in self.tools if name not in found]


def shown_chars(record: RunRecord) -> int:
    """The run's `max_result_chars`."""
    return record.origin.get("policy", {}).get("max_result_chars", Policy().max_result_chars)
