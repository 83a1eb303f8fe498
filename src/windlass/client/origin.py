"""What a client writes down of a run so that it can be made again after a restart. Pure."""

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

__all__ = ["ADDED", "KIND", "Origin", "shown_chars"]

KIND = "client"
ADDED = "added"
"""What was added to a chat: a record without a request to the model."""


class Origin(Struct, kw_only=True, omit_defaults=True, tag_field="kind", tag=KIND):
    """The plan of a run without what only a process has: functions, hooks and connections."""

    tools: list[str] = []
    """What was offered, in that order. Tools that Windlass runs are found again by their names."""
    declared: list[FunctionDeclaration] = []
    """Those that the caller runs."""
    policy: Policy = Policy()
    settings: Settings = Settings()
    extra: dict[str, Any] = {}
    mode: Mode | None = None
    live: bool = True

    @classmethod
    def of(cls, plan: RunPlan, mode: Mode | None) -> "dict[str, Any]":
        """As plain JSON."""
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
        """Raises `RunInterrupted` if it cannot be understood."""
        try:
            return msgspec.convert(fields, cls)
        except (msgspec.ValidationError, ConfigError) as error:
            raise RunInterrupted(f"what is written of the run cannot be read: {error}") from error

    def offer(self, known: Mapping[str, Tool]) -> tuple[Offer, list[str]]:
        """The tools that the run was started with, and the names of those that are gone."""
        theirs = {declaration.name: Tool(declaration) for declaration in self.declared}
        found = {**known, **theirs}
        tools = {name: found[name] for name in self.tools if name in found}
        offer = Offer(tools, tuple(tool.declaration for tool in tools.values()))
        return offer, [name for name in self.tools if name not in found]


def shown_chars(record: RunRecord) -> int:
    """How much of a long result the run's model was shown."""
    return record.origin.get("policy", {}).get("max_result_chars", Policy().max_result_chars)
