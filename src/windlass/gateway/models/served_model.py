"""One model that a gateway serves: its tool offers, and the plans of its runs."""

import functools
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from windlass.content import Message, Usage
from windlass.events import TextDelta, TurnEnded
from windlass.gateway.config import LimitsConfig, ModelConfig
from windlass.gateway.models.enforced import EnforcedModel
from windlass.gateway.models.upstream import Upstream, failure_text
from windlass.jsontext import LARGE, by_size
from windlass.loop.executor import ToolExecutor
from windlass.loop.loop import RunPlan
from windlass.loop.policy import Policy
from windlass.model import AUTO, Model, ModelRequest, Settings
from windlass.models import WIRES
from windlass.request import ClientTools, PartKind, PartPlace, RequestLimits, RunRequest
from windlass.runs.origin import Offer, Origin
from windlass.runs.planning import Planner
from windlass.settings import FunctionCallingSettings, Mode
from windlass.tool import OnInterrupt, Tool
from windlass.wires.errors import InvalidRequest

if TYPE_CHECKING:
    from windlass.toolsets.mcp.sampling import Sampled

log = logging.getLogger("windlass.gateway")

_NO_TOOLS = Offer()
NO_CLIENT_TOOLS = ClientTools()

_RESULT_PARTS = ("anthropic", "responses")
"""The providers that support parts besides text in the results of tools."""
_MAX_CACHED_BYTES = 256 * 1024
_MAX_CACHED_LISTS = 128
_REFERENCES = re.compile(rb"\$ref|\\u")
"""A possible reference: expanding it may make a small schema large."""
_MEDIA: frozenset[PartKind] = frozenset({"image", "audio", "file"})
_SUPPORTED_PARTS: Mapping[str, frozenset[PartKind]] = {
    "anthropic": frozenset({"image", "file"}),
    "gemini": _MEDIA,
    "responses": _MEDIA,
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
        request_limits: RequestLimits,
        executor: ToolExecutor,
        on_interrupt: OnInterrupt = "tell_model",
    ) -> None:
        self.config, self.model = config, model
        self.name = config.name
        self.provider = config.target.partition("/")[0]
        self.wire = WIRES.get(self.provider, "")
        """The wire of its provider; empty if it has none."""
        upstream = EnforcedModel(Upstream(model, config.name))
        self._planner = Planner(upstream, settings, executor, config.mode or settings.mode)
        self.own = own
        """The tools that do not depend on MCP servers or workers."""
        self._offers = ToolOffers(own, request_limits)
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
        offer = self._offers.of(NO_CLIENT_TOOLS, remote)
        messages = self.with_system((Message.user("Hello"),))
        await self._planner.modes.warm(ModelRequest(messages=messages, tools=offer.declarations))
        return True

    async def sample(self, messages: tuple[Message, ...], max_tokens: int) -> "Sampled":
        """Answers a request of an MCP server, without tools. Raises `ModelError`."""
        from windlass.toolsets.mcp.sampling import Sampled

        request = ModelRequest(messages=messages, settings=Settings(max_tokens=max_tokens))
        text, usage = "", Usage()
        async with self.model.stream(request) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    text += event.text
                elif isinstance(event, TurnEnded):
                    usage = event.usage
        return Sampled(text, self.name, usage.total_tokens or max_tokens)

    @property
    def mode(self) -> Mode:
        """The mode of requests that choose none."""
        return self._planner.mode

    def with_system(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages after the configured system prompt, unless they have their own."""
        if self.config.system and (not messages or messages[0].role != "system"):
            return (Message.system(self.config.system), *messages)
        return messages

    def own_and(self, remote: tuple[Tool, ...]) -> Mapping[str, Tool]:
        """The server tools of a run by name; `remote` are those of MCP servers and workers."""
        return self._offers.of(NO_CLIENT_TOOLS, remote).tools

    async def offer(self, request: RunRequest, remote: tuple[Tool, ...]) -> Offer:
        """The tools of this request. Reads a long list outside the event loop.

        Raises `InvalidRequest`, which names the field.
        """
        offer = await self._offers.read(request.tools, remote)
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

    def origin(self, request: RunRequest, offer: Offer) -> Origin:
        """What a run of this request is started with. Raises `InvalidRequest`."""
        check_parts(request.parts, self.provider, self.name)
        policy = self._policy
        if offer.tools and (
            request.tool_choice is not AUTO or request.parallel_tool_calls is not None
        ):
            policy = replace(
                policy,
                tool_choice=request.tool_choice,
                parallel_tool_calls=request.parallel_tool_calls,
            )
        return Origin(
            kind="gateway",
            policy=policy,
            settings=request.settings,
            extra=request.extra if self.wire == request.wire else {},
            mode=request.mode,
            live=request.live,
            approvable=request.approvable,
            needs_client=not request.background,
            session=request.session,
            wire=request.wire,
            answer=request.answer,
        )

    def plan(
        self, run_id: str, origin: Origin, messages: tuple[Message, ...], offer: Offer
    ) -> RunPlan:
        """The plan of a run with these tools."""
        error_text = functools.partial(failure_text, run_id)
        plan = self._planner.plan(run_id, origin, messages, offer, error_text=error_text)
        # Enforced around emulation too: it reads calls from text and may end without one.
        insists = plan.policy.tool_choice.mode == "required"
        if plan.model and offer.tools and (insists or plan.policy.parallel_tool_calls is False):
            plan = replace(plan, model=EnforcedModel(plan.model, insists=insists))
        return plan


def check_parts(parts: Sequence[PartPlace], provider: str, model: str) -> None:
    """Raises `InvalidRequest` for the first part that this provider does not support."""
    supported = _SUPPORTED_PARTS.get(provider)
    if supported is None:
        return
    for part in parts:
        misplaced = part.in_result and provider not in _RESULT_PARTS
        if misplaced or part.kind not in supported:
            where = " in a tool result" if misplaced else ""
            reason = f"the model {model!r} does not support parts of type {part.type!r}{where}"
            raise InvalidRequest(f"{part.place}: {reason}", part.place, "unsupported_content")


_Reader: TypeAlias = Callable[[bytes, RequestLimits], Sequence[Tool]]


class ToolOffers:
    """Builds the tool offers of one model. Caches lists of tools, which clients send every turn."""

    def __init__(self, own: Mapping[str, Tool], limits: RequestLimits) -> None:
        self._own, self._limits = own, limits
        self._cache: dict[tuple[bytes, _Reader, tuple[Tool, ...]], Offer] = {}

    def of(self, tools: ClientTools, remote: tuple[Tool, ...] = ()) -> Offer:
        """Combines the gateway's own tools, `remote` ones (of MCP servers and workers) and `tools`.

        If names collide, a client tool wins over the gateway's own, which wins over a remote one.
        Raises `InvalidRequest`, which names the field.
        """
        known = self._from_cache(tools, remote)
        if known is not None:
            return known
        given = tools.read(tools.source, self._limits) if tools.source else ()
        return self._cached(tools, remote, given)

    async def read(self, tools: ClientTools, remote: tuple[Tool, ...] = ()) -> Offer:
        """Like `of`, but reads a long list outside the event loop."""
        known, source = self._from_cache(tools, remote), tools.source
        if known is not None or not source:
            return known or self.of(tools, remote)
        size = len(source)
        if size <= LARGE and _REFERENCES.search(source):
            size += LARGE
        return self._cached(tools, remote, await by_size(size, tools.read, source, self._limits))

    def _from_cache(self, tools: ClientTools, remote: tuple[Tool, ...]) -> Offer | None:
        """Long lists are not cached: hashing one takes too long."""
        if len(tools.source) > _MAX_CACHED_BYTES:
            return None
        return self._cache.get((tools.source, tools.read, remote))

    def _cached(
        self, tools: ClientTools, remote: tuple[Tool, ...], client_tools: Sequence[Tool]
    ) -> Offer:
        offer = self._joined(remote, client_tools)
        if len(tools.source) <= _MAX_CACHED_BYTES:
            if len(self._cache) > _MAX_CACHED_LISTS:
                self._cache.clear()
            self._cache[tools.source, tools.read, remote] = offer
        return offer

    def _joined(self, remote: tuple[Tool, ...], client_tools: Sequence[Tool]) -> Offer:
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
