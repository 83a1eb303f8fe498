"""The browser that the tests of the AI Studio page share, and models that work in it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from tests.support.browsing import Chromium, MakeModel, model_in, replica, started_chromium

from windlass.models.aistudio import AIStudioModel


@pytest_asyncio.fixture(loop_scope="session", scope="package")
async def chromium() -> AsyncIterator[Chromium]:
    async with started_chromium() as chromium:
        yield chromium


@pytest_asyncio.fixture(loop_scope="session", scope="package")
async def shared_model(chromium: Chromium) -> AsyncIterator[AIStudioModel]:
    """The model on the page that the tests share."""
    with replica(()) as fake:
        model = model_in(chromium, fake.url)
    yield model
    await model.aclose()
    replica.close()


@pytest_asyncio.fixture(loop_scope="session")
async def model_on(chromium: Chromium, shared_model: AIStudioModel) -> AsyncIterator[MakeModel]:
    """Models on addresses, as `model_in` makes them: `model_on(fake.url, pages=2)`."""
    models: list[AIStudioModel] = []

    def make(url: str, *name: str, **options: Any) -> AIStudioModel:
        if replica.serves(url) and not (name or options):
            return shared_model
        models.append(model_in(chromium, url, *name, **options))
        return models[-1]

    yield make
    for model in models:
        await model.aclose()
