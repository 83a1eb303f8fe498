"""One name that clients may ask for: the model behind it, its tools, and how a run of it goes."""

import functools
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from windlass.client.options import Offer
from windlass.content import Message
from windlass.emulation.mode import Modes
from windlass.gateway.config import LimitsConfig, ModelConfig
from windlass.gateway.models.client_tools import NOTHING, ToolOffers
from windlass.gateway.models.enforced import EnforcedModel
from windlass.gateway.models.upstream import Upstream, failure_text
from windlass.loop.approval import Approvals
from windlass.loop.executor import ToolExecutor
from windlass.loop.loop import RunPlan
from windlass.loop.policy import Policy
from windlass.model import AUTO, Model, ModelRequest
from windlass.settings import FunctionCallingSettings, Mode
from windlass.tool import OnInterrupt, Tool
from windlass.wires.chat.read_request import ChatRequest, Limits, PartPlace
from windlass.wires.errors import InvalidRequest
from windlass.wires.fields import JsonObject

__all__ = ["ServedModel"]


_MEDIA = frozenset({"image_url", "input_audio", "file"})
_TAKEN: Mapping[str, frozenset[str]] = {
    "gemini": _MEDIA,
    "vertex": _MEDIA,
    "aistudio": frozenset(),
    "local": frozenset(),
}
"""The kinds of parts, beside text, that each provider can be sent. An OpenAI-compatible service is
sent all of them as they are, and refuses by itself what it cannot take."""


class ServedModel:
    """Makes the plans of its runs."""

    def __init__(
        self,
        config: ModelConfig,
        model: Model,
        own: Mapping[str, Tool],
        settings: FunctionCallingSettings,
        limits: LimitsConfig,
        request_limits: Limits,
        executor: ToolExecutor,
        on_interrupt: OnInterrupt = "tell_model",
    ) -> None:
        self.config, self.model = config, model
        self.name = config.name
        self.provider = config.target.partition("/")[0]
        self._modes = Modes(EnforcedModel(Upstream(model, config.name)), settings)
        self.mode: Mode = config.mode or settings.mode
        self.own = own
        """The tools that are always there."""
        self._offers = ToolOffers(own, request_limits)
        self._executor = executor
        self._policy = Policy(
            max_rounds=config.max_rounds,
            on_limit=config.on_limit,
            timeout=config.run_timeout or limits.run_timeout,
            tool_timeout=config.tool_timeout,
            approval_timeout=config.approval_timeout,
            max_parallel=config.max_parallel,
            on_interrupt=on_interrupt,
            expose_errors=config.expose_errors,
        )

    async def warm(self, remote: tuple[Tool, ...] = ()) -> bool:
        """Has the model read ahead what every request begins with; False if it is not here."""
        if not hasattr(self.model, "warm"):
            return False
        messages = (Message.system(self.config.system),) if self.config.system else ()
        offer = self._offers.of(b"", remote)
        await self._modes.warm(
            ModelRequest(messages=(*messages, Message.user("Hello")), tools=offer.declarations)
        )
        return True

    def plan(
        self,
        request: ChatRequest,
        *,
        run_id: str,
        messages: tuple[Message, ...],
        mode: Mode | None,
        live: bool,
        remote: tuple[Tool, ...] = (),
        offer: Offer | None = None,
    ) -> RunPlan:
        """What a run is told at its start; `remote` are its tools that come and go.

        `offer` is what `offer` returned for them, if it was called before. Raises
        `InvalidRequest`, which names the field.
        """
        check_parts(request.parts, self.provider, self.name)
        offer = self._chosen(request, offer or self._offers.of(request.tools, remote))
        policy = self._policy
        if offer.tools and (
            request.tool_choice is not AUTO or request.parallel_tool_calls is not None
        ):
            policy = replace(
                policy,
                tool_choice=request.tool_choice,
                parallel_tool_calls=request.parallel_tool_calls,
            )
        if self.config.system and messages[0].role != "system":
            messages = (Message.system(self.config.system), *messages)
        return RunPlan(
            run_id=run_id,
            model=self._in_mode(mode or self.mode, offer, messages, request),
            messages=messages,
            tools=offer.tools,
            declarations=offer.declarations,
            policy=policy,
            executor=self._executor,
            approvals=Approvals(None, wait=live, timeout=policy.approval_timeout),
            settings=request.settings,
            extra=_extra(request.extra, self.provider),
            live=live,
            error_text=functools.partial(failure_text, run_id),
        )

    async def offer(self, request: ChatRequest, remote: tuple[Tool, ...]) -> Offer:
        """The tools of this request, read off the event loop where that takes long.

        Raises `InvalidRequest`, which names the field.
        """
        return await self._offers.read(request.tools, remote)

    def _chosen(self, request: ChatRequest, offer: Offer) -> Offer:
        """The tools that the request wants. Raises `InvalidRequest` for a missing choice."""
        choice = request.tool_choice
        if choice.mode == "none" or not self.config.function_calling:
            offer = NOTHING
        if unknown := [name for name in choice.names if name not in offer.tools]:
            raise InvalidRequest(f"tool_choice: no tool is named {unknown[0]!r}", "tool_choice")
        if choice.mode == "required" and not offer.tools:
            raise InvalidRequest(
                "tool_choice: a call is required, and no tool is there", "tool_choice"
            )
        return offer

    def _in_mode(
        self, mode: Mode, offer: Offer, messages: tuple[Message, ...], request: ChatRequest
    ) -> Model:
        has_tools = bool(offer.tools) or any(message.role == "tool" for message in messages)
        # Where no tools are spoken of there is nothing to fall back from.
        model = self._modes.of(mode if has_tools else "native")
        # The calls that emulation reads from text, and its last answer, are held to the request.
        insists = request.tool_choice.mode == "required"
        if offer.tools and (insists or request.parallel_tool_calls is False):
            return EnforcedModel(model, insists=insists)
        return model


def check_parts(parts: Sequence[PartPlace], provider: str, model: str) -> None:
    """Raises `InvalidRequest` for the first part that a model of this provider cannot be sent."""
    taken = _TAKEN.get(provider)
    if taken is None:
        return
    for part in parts:
        if part.in_result or part.kind not in taken:
            where = " in a tool's result" if part.in_result else ""
            said = f"the model {model!r} takes no parts of type {part.kind!r}{where}"
            raise InvalidRequest(f"{part.place}: {said}", part.place, "unsupported_content")


_GEMINI_NAMES = {
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "logprobs": "responseLogprobs",
    "top_logprobs": "logprobs",
}
_THINKING_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576}


def _extra(extra: JsonObject, provider: str) -> JsonObject:
    """Fields that we have no word for: passed on where they are known, else left out.

    Google refuses a request with a field that it does not know.
    """
    if not extra or provider == "openai":
        return extra
    if provider not in ("gemini", "vertex"):
        return {}
    generation: JsonObject = {
        name: extra[field] for field, name in _GEMINI_NAMES.items() if extra.get(field) is not None
    }
    budget = _THINKING_BUDGETS.get(str(extra.get("reasoning_effort")))
    if budget is not None:
        generation["thinkingConfig"] = {"thinkingBudget": budget}
    return {"generationConfig": generation} if generation else {}
