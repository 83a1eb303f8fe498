"""Plans the runs of one model: new ones, and interrupted ones when they are resumed."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from windlass.content import Message
from windlass.emulation.mode import Modes
from windlass.errors import RunInterrupted
from windlass.loop.approval import ApprovalHook, Approvals
from windlass.loop.executor import ToolExecutor
from windlass.loop.history import History
from windlass.loop.loop import RunPlan, error_text
from windlass.loop.output import OutputCheck
from windlass.model import Model
from windlass.runs.origin import Offer, Origin
from windlass.settings import FunctionCallingSettings, Mode, mode_from

if TYPE_CHECKING:
    from windlass.emulation.output import OutputMethods

MAX_RESUMPTIONS = 20
"""The maximum number of resumptions in a row without progress. A run that exceeds it probably
crashes its process. A run that only waits for approvals is exempt: restarts may interrupt it any
number of times."""


class Planner:
    """Makes the plans of the runs of one model."""

    def __init__(
        self, model: Model, settings: FunctionCallingSettings, executor: ToolExecutor, mode: Mode
    ) -> None:
        """`mode` is the mode of runs whose origin has none."""
        self.modes = Modes(model, settings)
        self.mode: Mode = mode
        self._executor = executor

    def plan(
        self,
        run_id: str,
        origin: Origin,
        messages: tuple[Message, ...],
        offer: Offer,
        *,
        approve: ApprovalHook | None = None,
        output: OutputCheck | None = None,
        error_text: Callable[[BaseException], str] = error_text,
    ) -> RunPlan:
        """`output` checks the answer; by default, the schema of the origin does."""
        if output is None and origin.output is not None:
            output = OutputCheck.of_schema(origin.output)
        return RunPlan(
            run_id=run_id,
            model=self._model(origin, offer, messages),
            messages=messages,
            tools=offer.tools,
            declarations=offer.declarations,
            policy=origin.policy,
            executor=self._executor,
            approvals=Approvals(
                approve,
                wait=origin.live or origin.approvable,
                timeout=origin.policy.approval_timeout,
            ),
            settings=origin.settings,
            extra=origin.extra,
            live=origin.live,
            output=output,
            error_text=error_text,
        )

    @cached_property
    def output_methods(self) -> "OutputMethods":
        """The ways in which the model can be asked for a value."""
        from windlass.emulation.output import OutputMethods

        return OutputMethods(self.modes.of("native"))

    def _model(self, origin: Origin, offer: Offer, messages: Sequence[Message]) -> Model:
        mode = self.mode if origin.mode is None else mode_from(origin.mode)
        has_tools = bool(offer.tools) or any(message.role == "tool" for message in messages)
        if origin.output is not None:
            # Imported here, because a run without a type does not need it.
            from windlass.emulation.output import OutputModel

            return OutputModel(self.modes.of(mode), origin.output, self.output_methods)
        # Without tools, the automatic mode does not need its fallback.
        return self.modes.of("native" if mode == "auto" and not has_tools else mode)


def ending_plan(run_id: str, origin: Origin, history: History) -> RunPlan:
    """The plan of a run that cannot be resumed: the run answers its open calls and ends."""
    offer, _ = origin.offer({})
    return RunPlan(
        run_id=run_id,
        model=None,
        messages=history.started.messages if history.started else (),
        tools=offer.tools,
        declarations=offer.declarations,
        policy=origin.policy,
        executor=ToolExecutor(),
        approvals=Approvals(None, wait=False, timeout=1.0),
        output=origin.output and OutputCheck.of_schema(origin.output),
    )


def resume_refusal(history: History, missing_tools: Sequence[str]) -> RunInterrupted | None:
    """Returns why the run cannot be resumed; None if it can."""
    if missing_tools:
        names = ", ".join(missing_tools)
        return RunInterrupted(f"the run was interrupted, and its tools are missing: {names}")
    if history.resumptions >= MAX_RESUMPTIONS and not history.only_waits:
        return RunInterrupted(
            f"the run was interrupted {history.resumptions} times without progress"
        )
    return None
