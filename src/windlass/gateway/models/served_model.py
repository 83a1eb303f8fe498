"""One model that a gateway serves: its tool offers, and the plans of its runs."""

import functools
import logging
import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from windlass.client.options import Offer
from windlass.content import Message
from windlass.emulation.mode import Modes
from windlass.gateway.config import LimitsConfig, ModelConfig
from windlass.gateway.models.enforced import EnforcedModel
from windlass.gateway.models.upstream import Upstream, failure_text
from windlass.jsontext import LARGE, by_size
from windlass.loop.approval import Approvals
from windlass.loop.executor import ToolExecutor
from windlass.loop.loop import RunPlan
from windlass.loop.policy import Policy
from windlass.model import AUTO, Model, ModelRequest
from windlass.settings import FunctionCallingSettings, Mode
from windlass.tool import OnInterrupt, Tool
from windlass.wires.chat.read_request import ChatRequest, Limits, PartPlace, read_tools
from windlass.wires.errors import InvalidRequest
from windlass.wires.fields import JsonObject

log = logging.getLogger("windlass.gateway")

_NO_TOOLS = Offer({}, ())

_MAX_CACHED_BYTES = 256 * 1024
_MAX_CACHED_LISTS = 128
_REFERENCES = re.compile(rb"\$ref|\\u")
"""A possible reference: expanding it may make a small schema large."""
_MEDIA = frozenset({"image_url", "input_audio", "file"})
_SUPPORTED_PARTS: Mapping[str, frozenset[str]] = {
    "gemini": _MEDIA,
    "vertex": _MEDIA,
    "aistudio": frozenset(),
    "local": frozenset(),
}
"""The kinds of parts besides text that each provider supports. An OpenAI-compatible service gets
all parts unchanged and refuses those that it does not support."""


class ServedModel:
    """A configured model. Makes the plans of its runs."""

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
        """The tools that do not depend on MCP servers or workers."""
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
        """Makes a local model process the common start of all requests; False for other models."""
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
        """The plan of a run; `remote` are its tools of MCP servers and workers.

        `offer` is the result of `offer()` for these, if known. Raises `InvalidRequest`, which names
        the field.
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
        """The tools of this request. Reads a long list outside the event loop.

        Raises `InvalidRequest`, which names the field.
        """
        return await self._offers.read(request.tools, remote)

    def _chosen(self, request: ChatRequest, offer: Offer) -> Offer:
        """The tools that `tool_choice` allows. Raises `InvalidRequest` for an unknown one."""
        choice = request.tool_choice
        if choice.mode == "none" or not self.config.function_calling:
            offer = _NO_TOOLS
        if unknown := [name for name in choice.names if name not in offer.tools]:
            raise InvalidRequest(f"tool_choice: unknown tool {unknown[0]!r}", "tool_choice")
        if choice.mode == "required" and not offer.tools:
            raise InvalidRequest(
                "tool_choice: a call is required, but there are no tools", "tool_choice"
            )
        return offer

    def _in_mode(
        self, mode: Mode, offer: Offer, messages: tuple[Message, ...], request: ChatRequest
    ) -> Model:
        has_tools = bool(offer.tools) or any(message.role == "tool" for message in messages)
        # Without tools there is nothing to emulate.
        model = self._modes.of(mode if has_tools else "native")
        # Enforced around emulation too: it reads calls from text and may end without one.
        insists = request.tool_choice.mode == "required"
        if offer.tools and (insists or request.parallel_tool_calls is False):
            return EnforcedModel(model, insists=insists)
        return model


def check_parts(parts: Sequence[PartPlace], provider: str, model: str) -> None:
    """Raises `InvalidRequest` for the first part that this provider does not support."""
    supported = _SUPPORTED_PARTS.get(provider)
    if supported is None:
        return
    for part in parts:
        if part.in_result or part.kind not in supported:
            where = " in a tool result" if part.in_result else ""
            reason = f"the model {model!r} does not support parts of type {part.kind!r}{where}"
            raise InvalidRequest(f"{part.place}: {reason}", part.place, "unsupported_content")


_GEMINI_NAMES = {
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "logprobs": "responseLogprobs",
    "top_logprobs": "logprobs",
}
_THINKING_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576}


def _extra(extra: JsonObject, provider: str) -> JsonObject:
    """Fields of the request that Windlass does not model, for providers that know them.

    Other providers get none of them: Google refuses a request with an unknown field.
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


class ToolOffers:
    """Builds the tool offers of one model. Caches lists of tools, which clients send every turn."""

    def __init__(self, own: Mapping[str, Tool], limits: Limits) -> None:
        self._own, self._limits = own, limits
        self._cache: dict[tuple[bytes, tuple[Tool, ...]], Offer] = {}

    def of(self, tools: bytes, remote: tuple[Tool, ...] = ()) -> Offer:
        """Combines the gateway's own tools, `remote` ones (of MCP servers and workers) and `tools`.

        If names collide, a client tool wins over the gateway's own, which wins over a remote one.
        Raises `InvalidRequest`, which names the field.
        """
        known = self._from_cache(tools, remote)
        if known is not None:
            return known
        return self._cached(tools, remote, read_tools(tools, self._limits) if tools else [])

    async def read(self, tools: bytes, remote: tuple[Tool, ...] = ()) -> Offer:
        """Like `of`, but reads a long list outside the event loop."""
        known = self._from_cache(tools, remote)
        if known is not None or not tools:
            return known or self.of(tools, remote)
        size = len(tools)
        if size <= LARGE and _REFERENCES.search(tools):
            size += LARGE
        return self._cached(tools, remote, await by_size(size, read_tools, tools, self._limits))

    def _from_cache(self, tools: bytes, remote: tuple[Tool, ...]) -> Offer | None:
        """Long lists are not cached: hashing one takes too long."""
        return self._cache.get((tools, remote)) if len(tools) <= _MAX_CACHED_BYTES else None

    def _cached(self, tools: bytes, remote: tuple[Tool, ...], client_tools: list[Tool]) -> Offer:
        offer = self._joined(remote, client_tools)
        if len(tools) <= _MAX_CACHED_BYTES:
            if len(self._cache) > _MAX_CACHED_LISTS:
                self._cache.clear()
            self._cache[tools, remote] = offer
        return offer

    def _joined(self, remote: tuple[Tool, ...], client_tools: list[Tool]) -> Offer:
        tools = dict(self._own)
        for tool in remote:
            tools.setdefault(tool.name, tool)
        for tool in client_tools:
            if tool.name in tools:
                log.warning(
                    "A client tool replaces a server tool of the same name",
                    extra={"tool": tool.name},
                )
            tools[tool.name] = tool
        return Offer(tools, tuple(tool.declaration for tool in tools.values()))
