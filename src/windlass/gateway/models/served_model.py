"""One model that a gateway serves: its tool offers, and the plans of its runs."""

import functools
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from msgspec.structs import replace

from windlass.content import Message, Usage
from windlass.errors import ConfigError
from windlass.events import TextDelta, TurnEnded
from windlass.gateway.config import LimitsConfig, ModelConfig
from windlass.gateway.models.wrappers import EnforcedModel, Upstream, failure_text
from windlass.jsontext import LARGE, by_size
from windlass.loop.executor import ToolExecutor
from windlass.loop.loop import RunPlan
from windlass.loop.policy import Policy
from windlass.model import AUTO, Model, ModelRequest, Preparation, Settings
from windlass.models import plug_in, wire_of
from windlass.output.spec import OutputSpec, schema_name
from windlass.request import (
    NO_BUDGET,
    ClientTools,
    PartKind,
    PartPlace,
    RequestBudget,
    RequestLimits,
    RunRequest,
)
from windlass.runs.origin import Offer, Origin
from windlass.runs.planning import Planner
from windlass.settings import FunctionCallingSettings, Mode
from windlass.tool import OnInterrupt, Tool
from windlass.tool.declarations import InvalidSchema
from windlass.wires.errors import InvalidRequest, Problem

if TYPE_CHECKING:
    from windlass.toolsets.mcp.sampling import Sampled

log = logging.getLogger("windlass.gateway")

L = TypeVar("L", int, float, Decimal)
_NO_TOOLS = Offer()
NO_CLIENT_TOOLS = ClientTools()

_PREPARATIONS = {
    "loading": "The model is loading",
    "reading": "The model is reading its instructions and tools",
}
_MAX_SILENCE = 10
"""Seconds that a client without a stream waits for a model that is not ready."""
_MAX_CACHED_BYTES = 256 * 1024
_MAX_CACHED_LISTS = 128
_REFERENCES = re.compile(rb"\$ref|\\u")
"""A possible reference: expanding it may make a small schema large."""
_MEDIA: frozenset[PartKind] = frozenset({"image", "audio", "file"})
SCHEMA_FIELDS = {
    "chat": "response_format",
    "responses": "text.format",
    "messages": "output_config.format",
    "gemini": "generationConfig.responseSchema",
}
"""The field of each wire with the schema of the answer."""
_FORMAT_SECTIONS = frozenset({"output_config", "generationConfig", "text"})
_FORMAT_FIELDS = frozenset(
    {
        *("format", "output_format", "response_format"),
        *("responseMimeType", "responseSchema", "responseJsonSchema"),
    }
)
_SUPPORTED_PARTS: Mapping[str, frozenset[PartKind]] = {
    "anthropic": frozenset({"image", "file"}),
    "gemini": _MEDIA,
    "responses": _MEDIA,
    "vertex": _MEDIA,
    "local": frozenset(),
}
"""The kinds of parts besides text that each provider supports. An OpenAI-compatible service gets
all parts unchanged and refuses those that it does not support."""


def _supported_parts(provider: str) -> frozenset[PartKind] | None:
    """The kinds of parts that a provider supports; None if the provider itself refuses others."""
    if provider in _SUPPORTED_PARTS or (found := plug_in(provider)) is None:
        return _SUPPORTED_PARTS.get(provider)
    return found.parts


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
        self.wire = wire_of(self.provider)
        """The wire of its provider; empty if it has none."""
        upstream = EnforcedModel(Upstream(model, config.name))
        self._planner = Planner(upstream, settings, executor, config.mode or settings.mode)
        self.own = own
        """The tools that do not depend on MCP servers or workers."""
        self._offers = ToolOffers(own, request_limits)
        self._policy = Policy(
            max_rounds=config.max_rounds,
            on_limit=config.on_limit,
            max_tokens_total=config.max_tokens_total,
            max_cost=config.max_cost,
            price=config.prices,
            timeout=config.run_timeout or limits.run_timeout,
            tool_timeout=config.tool_timeout,
            approval_timeout=config.approval_timeout,
            max_parallel=config.max_parallel,
            on_interrupt=on_interrupt,
            expose_errors=config.expose_errors,
        )

    async def warm(self, remote: tuple[Tool, ...] = ()) -> bool:
        """Makes a local model process the common start of all requests. False for other models."""
        if not hasattr(self.model, "warm"):
            return False
        offer = self._offers.of(NO_CLIENT_TOOLS, remote)
        messages = self.with_system((Message.user("Hello"),))
        request = ModelRequest(messages=messages, tools=offer.declarations)
        await self._planner.modes.warm(request)
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
    def preparation(self) -> Preparation | None:
        """What a local model still has to do before it can answer; None if it is ready."""
        preparation: object = getattr(self.model, "preparation", None)
        return preparation if isinstance(preparation, Preparation) else None

    def notice(self) -> str:
        """A sentence for the client if the model is not ready; else empty."""
        preparation = self.preparation
        if preparation is None:
            return ""
        left = preparation.seconds_left
        about = f" (about {left} s left)" if left else ""
        return f"{_PREPARATIONS[preparation.stage]}{about}..."

    def refusal(self) -> Problem | None:
        """The refusal of a request without a stream that would wait long for the model."""
        preparation = self.preparation
        left = preparation.seconds_left if preparation else None
        if preparation is None or left is None or left <= _MAX_SILENCE:
            return None
        doing = _PREPARATIONS[preparation.stage]
        message = f"{doing}. Retry in {left} s, or stream the answer."
        return Problem(503, message, "model_not_ready", retry_after=left)

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
        """The origin of a run of this request. Raises `InvalidRequest`."""
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
        if request.budget is not NO_BUDGET:
            policy = self._with_budget(policy, request.budget)
        output = self._output(request, offer)
        extra = request.extra if self.wire == request.wire else {}
        return Origin(
            kind="gateway",
            policy=policy,
            settings=request.settings,
            extra=extra if output is None else without_format(extra),
            output=output,
            mode=request.mode,
            live=request.live,
            approvable=request.approvable,
            needs_client=not request.background,
            session=request.session,
            wire=request.wire,
            answer=request.answer,
        )

    def _with_budget(self, policy: Policy, budget: RequestBudget) -> Policy:
        """The policy with the budgets of a request, which can only lower those of the model."""
        if budget.max_cost is not None and policy.price is None:
            message = f"max_cost: the gateway has no prices for the model {self.name!r}"
            raise InvalidRequest(message, "max_cost", "no_prices")
        return replace(
            policy,
            max_tokens_total=_least(policy.max_tokens_total, budget.max_tokens_total),
            max_cost=_least(policy.max_cost, budget.max_cost),
            timeout=_least(policy.timeout, budget.timeout),
        )

    def _output(self, request: RunRequest, offer: Offer) -> OutputSpec | None:
        """The required form of the answer. Raises `InvalidRequest` for an invalid schema.

        An upstream that enforces the schema streams its answer at once. Any other answer is held
        back until it is valid, and requested again if it is not, unless `strict` is false.
        """
        settings = request.settings
        if settings.response_schema is None:
            return None
        spec = OutputSpec(
            schema=settings.response_schema, name=schema_name(settings.response_name or "answer")
        )
        check_schema(spec, SCHEMA_FIELDS.get(request.wire, "response_format"))
        if not request.live:
            return spec
        methods = self._planner.output_methods.of(spec, self.mode, has_tools=bool(offer.tools))
        streams = methods[0] == "native" or settings.response_strict is False
        return replace(spec, retries=0) if streams else spec

    def plan(
        self, run_id: str, origin: Origin, messages: tuple[Message, ...], offer: Offer
    ) -> RunPlan:
        """The plan of a run with these tools."""
        error_text = functools.partial(failure_text, run_id)
        plan = self._planner.plan(run_id, origin, messages, offer, error_text=error_text)
        if hasattr(self.model, "preparation"):
            plan = replace(plan, notice=self.notice)
        # Enforced around emulation too: it reads calls from text and may end without one.
        insists = plan.policy.tool_choice.mode == "required"
        if plan.model and offer.tools and (insists or plan.policy.parallel_tool_calls is False):
            plan = replace(plan, model=EnforcedModel(plan.model, insists=insists))
        return plan


def _least(first: L | None, second: L | None) -> L | None:
    """The lower limit; None means no limit."""
    if first is None or second is None:
        return first if second is None else second
    return min(first, second)


def check_schema(spec: OutputSpec, field: str) -> None:
    """Raises `InvalidRequest` if the schema cannot validate answers."""
    # Imported here, because most requests have no schema.
    from windlass.output.value import stored_type

    try:
        stored_type(spec)
    except InvalidSchema as error:
        place = f"{field}{error.place.removeprefix('parameters')}"
        raise InvalidRequest(f"{place}: not a schema: {error.reason}", field) from None
    except ConfigError as error:
        raise InvalidRequest(f"{field}: {error}", field) from None


def without_format(extra: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request without those that ask for a schema: the output method sets them."""
    kept = {name: value for name, value in extra.items() if name not in _FORMAT_FIELDS}
    for name in _FORMAT_SECTIONS & kept.keys():
        section = cast("dict[str, Any]", kept[name])
        kept[name] = {key: value for key, value in section.items() if key not in _FORMAT_FIELDS}
    return kept


def attachments_of(provider: str) -> list[PartKind]:
    """The kinds of parts besides text that this provider may support."""
    supported = _supported_parts(provider)
    return sorted(_MEDIA if supported is None else supported)


def check_parts(parts: Sequence[PartPlace], provider: str, model: str) -> None:
    """Raises `InvalidRequest` for the first part that this provider does not support."""
    supported = _supported_parts(provider)
    if supported is None:
        return
    for part in parts:
        if part.in_result and part.kind in _MEDIA:
            continue  # every wire has a place for it, or a text in its place
        if part.kind not in supported:
            where = " in a tool result" if part.in_result else ""
            reason = f"the model {model!r} does not support parts of type {part.type!r}{where}"
            raise InvalidRequest(f"{part.place}: {reason}", part.place, "unsupported_content")


_ToolsReader: TypeAlias = Callable[[bytes, RequestLimits], Sequence[Tool]]


class ToolOffers:
    """Builds the tool offers of one model. Caches lists of tools, which clients send every turn."""

    def __init__(self, own: Mapping[str, Tool], limits: RequestLimits) -> None:
        self._own, self._limits = own, limits
        self._cache: dict[tuple[bytes, _ToolsReader, tuple[Tool, ...]], Offer] = {}

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
