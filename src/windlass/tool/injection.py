"""What a tool is given besides the model's arguments: dependencies and its own context."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from windlass.content import FunctionCall

__all__ = ["Decision", "Depends", "ToolContext"]

Report = Callable[[float | None, str | None, Any], None]


class Decision(Protocol):
    """What somebody says to a call: `Approval`, as far as a tool needs to know."""

    @property
    def approved(self) -> bool: ...
    @property
    def arguments(self) -> dict[str, Any] | None: ...
    @property
    def reason(self) -> str | None: ...


Ask = Callable[[FunctionCall], Awaitable[Decision]]


@dataclass(frozen=True, slots=True)
class Depends:
    """`Annotated[T, Depends(function)]`: the parameter's value is what the function returns.

    The model does not see the parameter. The function is called once per run. It may be sync or
    async, have `Depends` parameters of its own, and be a generator: what follows its `yield` is
    done at the run's end.
    """

    function: Callable[..., Any]


def _unheard(progress: float | None, message: str | None, data: Any) -> None:
    """A context that nobody listens to, as in a direct call."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    approved: bool = False
    arguments: dict[str, Any] | None = None
    reason: str | None = "there is nobody to ask"


async def _unasked(call: FunctionCall) -> Decision:
    """A context with nobody behind it, as in a direct call: the answer is no."""
    return _Refusal()


@dataclass(frozen=True, slots=True)
class ToolContext:
    """A running call, as its tool sees it. A parameter of this type is hidden from the model."""

    run_id: str = ""
    call_id: str = ""
    round: int = 1
    name: str = ""
    deadline: float | None = None
    """When the call must be done, on the clock of `time.monotonic`; None for no limit."""
    report: Report = field(default=_unheard, repr=False)
    ask: Ask = field(default=_unasked, repr=False)
    """Asks whoever approves the run's calls, in the middle of this one. The call that is given is
    what they are shown, and needs an id of its own."""

    @property
    def call_key(self) -> str:
        """One key per call over all runs: what a service wants as its idempotency key."""
        return f"{self.run_id}:{self.call_id}"

    def progress(
        self, progress: float | None = None, message: str | None = None, data: Any = None
    ) -> None:
        """Tells those who follow the run how far the call is. May be called from any thread."""
        self.report(progress, message, data)
