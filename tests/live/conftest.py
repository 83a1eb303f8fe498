"""Tests against the real services: only with `WINDLASS_LIVE=1`, and only those that have a key."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass import Client

HERE = Path(__file__).parent
MODELS = {
    "ANTHROPIC_API_KEY": os.environ.get("WINDLASS_LIVE_ANTHROPIC", "anthropic/claude-haiku-5-5"),
    "OPENAI_API_KEY": os.environ.get("WINDLASS_LIVE_OPENAI", "openai/gpt-5-mini"),
    "GEMINI_API_KEY": os.environ.get("WINDLASS_LIVE_GEMINI", "gemini/gemini-2.5-flash"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("WINDLASS_LIVE") != "1":
        skipped = pytest.mark.skip(reason="the real services are asked with WINDLASS_LIVE=1 alone")
        for item in items:
            if item.path.is_relative_to(HERE):
                item.add_marker(skipped)


@pytest.fixture(params=MODELS)
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client for each service whose key is in the environment."""
    if not os.environ.get(request.param):
        pytest.skip(f"there is no {request.param}")
    with Client(MODELS[request.param], timeout=120) as client:
        yield client
