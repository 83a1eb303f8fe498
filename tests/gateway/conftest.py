"""What the gateway's tests share: a file of runs, and gateways that open it one after another."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.restarting import Places, places_on


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
async def places(file: Path) -> AsyncIterator[Places]:
    async with places_on(file) as places:
        yield places
