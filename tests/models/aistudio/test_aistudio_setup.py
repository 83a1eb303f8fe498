"""The steps of the orchestrator before and after a request, on a fake page."""

import logging
from typing import Any

import pytest
from tests.models.aistudio.test_aistudio_calling import TIME, WEATHER, asking

from windlass import NativeModeUnavailable
from windlass.content import FunctionDeclaration
from windlass.model import Settings
from windlass.models.aistudio.browser import HeldPage
from windlass.models.aistudio.conversation import Orchestrator
from windlass.models.aistudio.elements import unavailable
from windlass.models.aistudio.schema import SchemaConverter
from windlass.models.aistudio.wire import PagePrompt
from windlass.models.retry import Waiting
from windlass.settings import FunctionCallingSettings

GO_ON = PagePrompt("And?", new_chat=False)
ANEW = PagePrompt("Hi", new_chat=True)


class PretendedPage:
    """A fake chat page and its function controller, which record the steps."""

    def __init__(self) -> None:
        self.functions = self
        self.model: str | None = None
        self.is_new = False
        self.on = False
        self.done: list[str] = []
        self.failures: list[Exception] = []
        self.fields = {"system": "", "temperature": "1"}

    async def open(self, model: str) -> None:
        self.done.append("open")
        self.model, self.is_new, self.on = model, True, False

    async def new_chat(self) -> None:
        self.done.append("new chat")
        self.is_new = True

    async def dismiss(self) -> None: ...

    async def enable(self) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.on = True

    async def disable(self) -> None:
        self.on = False

    async def is_enabled(self) -> bool:
        return self.on

    async def set_search(self, on: bool) -> None: ...

    async def set_declarations(self, text: str) -> None:
        self.done.append(f"declare {text.count('name')}")

    async def clear_declarations(self) -> None:
        self.done.append("clear")
        self.on = False

    async def field(self, name: str) -> str | None:
        return self.fields.get(name)

    async def set_field(self, name: str, text: str) -> bool:
        if name in self.fields:
            self.fields[name] = text
        return name in self.fields


class Asker:
    """Prepares one fake page for one request after another."""

    def __init__(self, **settings: Any) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.page = PretendedPage()
        self._held = HeldPage(self.page)  # type: ignore[arg-type]
        self._orchestrator = Orchestrator(
            "flash",
            FunctionCallingSettings(**settings),
            waiting=lambda retry: Waiting(retry, sleep=self._wait),
            clock=lambda: self.now,
        )

    async def __call__(
        self,
        *tools: FunctionDeclaration,
        plan: PagePrompt = GO_ON,
        settings: Settings | None = None,
    ) -> list[str]:
        """The steps for this request."""
        self.page.done.clear()
        self.page.is_new = False
        request = asking(*tools, settings=settings or Settings())
        declarations = SchemaConverter().convert_tools(tools)
        await self._orchestrator.prepare(self._held, plan, request, declarations)
        await self._orchestrator.clean_up(self._held, pending=False)
        return list(self.page.done)

    async def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)


async def test_tools_that_are_declared_are_not_declared_again() -> None:
    ask = Asker()
    assert await ask(WEATHER) == ["open", "declare 1"]
    assert await ask(WEATHER) == []
    assert await ask(WEATHER, TIME) == ["declare 2"]
    assert await ask(WEATHER) == ["declare 1"]


async def test_a_switch_that_was_changed_manually_makes_them_declared_again() -> None:
    ask = Asker()
    await ask(WEATHER)
    ask.page.on = False
    assert await ask(WEATHER) == ["declare 1"]


async def test_a_new_chat_and_another_model_make_them_forgotten() -> None:
    ask = Asker()
    await ask(WEATHER)
    assert await ask(WEATHER, plan=ANEW) == ["new chat", "declare 1"]
    ask.page.model = "pro"
    assert await ask(WEATHER) == ["open", "declare 1"]


async def test_cached_declarations_expire() -> None:
    ask = Asker(cache_ttl=30.0)
    await ask(WEATHER)
    ask.now = 29.0
    assert await ask(WEATHER) == []
    ask.now = 30.0
    assert await ask(WEATHER) == ["declare 1"]


@pytest.mark.parametrize(("clears", "after"), [(True, ["clear"]), (False, [])])
async def test_without_the_cache_they_are_declared_each_time_and_cleared_if_so_set(
    clears: bool, after: list[str]
) -> None:
    ask = Asker(cache_enabled=False, clear_between_requests=clears)
    assert await ask(WEATHER) == ["open", "declare 1", *after]
    assert await ask(WEATHER) == ["declare 1", *after]


async def test_a_failure_that_may_pass_is_tried_again_after_a_wait() -> None:
    ask = Asker(native_retry_count=3)
    ask.page.failures = [unavailable("slow", passing=True) for _ in range(2)]
    assert await ask(WEATHER) == ["open", "declare 1"]
    assert len(ask.waits) == 2
    ask.page.failures = [unavailable("slow", passing=True) for _ in range(3)]
    with pytest.raises(NativeModeUnavailable, match="slow"):
        await ask(TIME)


async def test_a_page_without_function_calling_is_not_asked_twice() -> None:
    ask = Asker(native_retry_count=3)
    ask.page.failures = [unavailable("none for this model")]
    with pytest.raises(NativeModeUnavailable, match="none for this model"):
        await ask(WEATHER)
    assert ask.waits == []


async def test_a_setting_without_a_field_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    ask = Asker()
    with caplog.at_level(logging.INFO, "windlass.models.aistudio"):
        for _ in range(2):
            await ask(settings=Settings(temperature=0.5, top_p=0.5, seed=1))
    assert ask.page.fields["temperature"] == "0.5"
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "AI Studio's page has no field for top_p",
        "AI Studio's page has no field for seed",
    ]
    await ask()
    assert ask.page.fields["temperature"] == "1"


async def test_debug_logs_tell_each_decision_about_switch_editor_digest_and_cache(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ask = Asker(debug_logs=True, cache_ttl=30.0)
    with caplog.at_level(logging.INFO, "windlass.models.aistudio"):
        await ask(WEATHER)
        await ask(WEATHER)
        await ask(TIME)
        ask.now = 30.0
        await ask(TIME)
        await ask(TIME, plan=ANEW)
        await ask()
    said = [record.getMessage() for record in caplog.records]
    digest = SchemaConverter().convert_tools((WEATHER,)).digest
    assert said[0].startswith("cache miss: the page's declarations are not known; declaring ")
    assert f"digest {digest}: the page has 1 functions" in said
    assert f"cache hit: the page has the declarations {digest[:12]}" in said
    assert any("the page has other declarations" in line for line in said)
    assert any("they are older than 30 seconds" in line for line in said)
    assert "cache cleared: a new chat begins" in said
    assert said[-1] == "no functions: switching function calling off"
    caplog.clear()
    await Asker()(WEATHER)
    assert caplog.records == []
