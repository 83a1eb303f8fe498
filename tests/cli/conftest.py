"""A place to run commands in, and an upstream that answers them."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.cli.environment import silence
from tests.cli.running import KEY, TOOLS, Ran, Run, Upstream

from windlass.cli import main
from windlass.testing import FakeOpenAI


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with tools, and an environment without settings."""
    (tmp_path / "tools.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    silence(monkeypatch)
    return tmp_path


@pytest.fixture
def upstream(here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    """Starts an upstream with a script: the only one that the environment names."""
    with ExitStack() as stack:

        def start(*script: Any) -> FakeOpenAI:
            fake = stack.enter_context(FakeOpenAI(script, api_key=KEY))
            monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
            monkeypatch.setenv("OPENAI_API_KEY", KEY)
            return fake

        yield start


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs `windlass run` with these words."""

    def start(*words: str) -> Ran:
        code = main(["run", *words])
        out, error = capfdbinary.readouterr()
        return Ran(code, out.decode(), error.decode())

    return start
