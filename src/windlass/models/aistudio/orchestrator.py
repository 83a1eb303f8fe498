"""`Orchestrator`: brings a page into the state that a request needs, and no further.

The set-up of functions is slow, so that the page's declarations are remembered by their digest. A
hit is believed only after the switch on the page has been read again; another model, a new chat, a
failure and the end of its time make it forgotten.
"""

import logging
import time
from collections.abc import Callable

from windlass.errors import ModelError
from windlass.model import ModelRequest, Settings
from windlass.models.aistudio.pool import HeldPage
from windlass.models.aistudio.schema import Declarations, SchemaConverter
from windlass.models.aistudio.wire import Plan, Prompt, has_search
from windlass.models.retry import Retry
from windlass.models.turn import Waiting
from windlass.settings import FunctionCallingSettings

__all__ = ["Orchestrator"]

log = logging.getLogger("windlass.models.aistudio")

_FIELDS = ("max_tokens", "temperature", "top_p")
_NO_FIELD = ("top_k", "stop", "seed")


class Orchestrator:
    """Prepares pages for requests to one model."""

    def __init__(
        self,
        model: str,
        settings: FunctionCallingSettings,
        *,
        waiting: Callable[[Retry], Waiting] = Waiting,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model, self._settings = model, settings
        self._retry = Retry(attempts=max(1, settings.native_retry_count), first_wait=0.25)
        self._waiting, self._clock = waiting, clock
        self._converter = SchemaConverter()
        self._told: set[str] = set()
        self.setups = 0
        """How often declarations were put into an editor."""

    async def prepare(
        self, held: HeldPage, plan: Plan, request: ModelRequest, declarations: Declarations
    ) -> Plan:
        """Makes the page ready for the plan; the plan as the page can carry it out.

        Raises `NativeModeUnavailable` if functions cannot be declared, `ModelError` otherwise.
        """
        if held.chat.model != self._model:
            held.declared = None
            await held.chat.open(self._model)
        if isinstance(plan, Prompt) and plan.new_chat:
            if not held.chat.is_new:
                held.declared = None
                await held.chat.new_chat()
            plan = await self._with_system(held, plan)
        await held.chat.dismiss()
        await self._set_tools(held, request, declarations)
        await self._set_fields(held, request.settings)
        return plan

    async def clean_up(self, held: HeldPage, *, pending: bool) -> None:
        """After a request: without the cache the page is cleared, unless calls on it are pending.

        What the cache keeps is replaced when another request needs something else.
        """
        if self._settings.cache_enabled or pending or not self._settings.clear_between_requests:
            return
        if held.declared is not None:
            held.declared = None
            try:
                await held.chat.functions.clear_declarations()
            except ModelError as problem:
                log.warning("The page's declarations could not be cleared: %s", problem)

    async def _with_system(self, held: HeldPage, plan: Prompt) -> Prompt:
        """System instructions have a field of their own; otherwise they go before the prompt."""
        if await held.chat.set_field("system", plan.system) or not plan.system:
            return plan
        return Prompt(f"{plan.system}\n\n{plan.text}", new_chat=True)

    async def _set_tools(
        self, held: HeldPage, request: ModelRequest, declarations: Declarations
    ) -> None:
        functions = held.chat.functions
        if not declarations.functions:
            await functions.disable()
            await functions.set_search(has_search(request))
        elif not (self._is_declared(held, declarations) and await functions.is_enabled()):
            await self._declare(held, declarations)

    def _is_declared(self, held: HeldPage, declarations: Declarations) -> bool:
        if not self._settings.cache_enabled or held.declared != declarations.digest:
            return False
        ttl = self._settings.cache_ttl
        return ttl is None or self._clock() - held.declared_at < ttl

    async def _declare(self, held: HeldPage, declarations: Declarations) -> None:
        held.declared = None
        waiting = self._waiting(self._retry)
        functions = held.chat.functions
        while True:
            try:
                await functions.enable()
                await functions.set_declarations(self._converter.to_json_string(declarations))
                break
            except ModelError as problem:
                try:
                    await waiting.after(problem)
                except ModelError:
                    problem.retryable = False  # it has been tried often enough
                    raise
        self.setups += 1
        held.declared, held.declared_at = declarations.digest, self._clock()

    async def _set_fields(self, held: HeldPage, settings: Settings) -> None:
        for name in _FIELDS:
            value: float | None = getattr(settings, name)
            if value is None:
                if (before := held.defaults.pop(name, None)) is not None:
                    await held.chat.set_field(name, before)
                continue
            before = await held.chat.field(name)
            if before is None:
                self._tell_ignored(name)
                continue
            held.defaults.setdefault(name, before)
            await held.chat.set_field(
                name, f"{value:g}" if isinstance(value, float) else str(value)
            )
        for name in _NO_FIELD:
            if getattr(settings, name) is not None:
                self._tell_ignored(name)

    def _tell_ignored(self, name: str) -> None:
        if name not in self._told:
            self._told.add(name)
            log.info("AI Studio's page has no field for %s: it is not passed on", name)
