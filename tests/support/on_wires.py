"""Plays the scripts of the loop's tests with the fake service of each wire."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self

from msgspec.structs import replace

from windlass.events import ModelEvent
from windlass.model import Model, ModelRequest
from windlass.models import Retry, create_model
from windlass.testing import FakeAnthropic, FakeGemini, FakeOpenAI, FakeResponses
from windlass.testing.script import Stepper
from windlass.testing.upstream import FakeUpstream

TARGETS: dict[str, tuple[str, Callable[..., FakeUpstream]]] = {
    "openai": ("openai/gpt-test", FakeOpenAI),
    "responses": ("responses/gpt-test", FakeResponses),
    "anthropic": ("anthropic/claude-opus-4-5", FakeAnthropic),
    "gemini": ("gemini/gemini-2.5-flash", FakeGemini),
}
"""The model of each wire, and the service that it asks."""


class WireStage:
    """A fake service of one wire, for several scripts, one after another."""

    def __init__(self, wire: str) -> None:
        self._target, fake = TARGETS[wire]
        self._playing: WireModel | None = None
        self._fake = fake(lambda _: self._step())

    def __enter__(self) -> Self:
        self._fake.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._fake.close()

    def play(self, script: Any) -> "WireModel":
        # Retries are the models' own affair: one attempt is one step of the script.
        model = create_model(
            self._target, base_url=self._fake.base_url, api_key="k", retry=Retry(attempts=1)
        )
        self._playing = WireModel(script, model)
        return self._playing

    def _step(self) -> Any:
        assert self._playing is not None
        return self._playing.step()


class WireModel:
    """A model over HTTP whose service plays a script. `requests` are what the loop asked."""

    def __init__(self, script: Any, model: Model) -> None:
        self.requests: list[ModelRequest] = []
        self._stepper: Stepper[ModelRequest] = Stepper(script)
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return self._opened(request)

    async def aclose(self) -> None:
        await self._model.aclose()

    def step(self) -> Any:
        """Returns the step that answers the last request."""
        return self._stepper.next(self.requests[-1])

    @asynccontextmanager
    async def _opened(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        request = replace(request, messages=tuple(request.messages))
        self.requests.append(request)
        async with self._model.stream(request) as events:
            yield events
