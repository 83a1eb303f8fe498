"""How far the loading of a model is, as the person at the terminal sees it."""

import io

import pytest
from tests.cli.environment import hide

from windlass.cli.model_selection import show_progress
from windlass.models.local.weights import WeightsProgress

STEPS = [
    WeightsProgress("joining", 0, 100),
    WeightsProgress("joining", 3, 100),
    WeightsProgress("joining", 55, 100),
    WeightsProgress("joining", 100, 100),
    WeightsProgress("loading", 0, 1),
    WeightsProgress("loading", 1, 1),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, *, quiet: bool = False) -> str:
    with show_progress(stream, quiet=quiet) as on_progress:
        for step in STEPS if on_progress else ():
            assert on_progress is not None
            on_progress(step)
    return stream.getvalue()


def test_without_rich_there_is_a_line_for_each_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "rich")
    assert shown(Terminal()).splitlines() == [
        "Joining the model's weights (only once): 0%",
        "Joining the model's weights (only once): 50%",
        "Joining the model's weights (only once): 100%",
        "Loading the model: 0%",
        "Loading the model: 100%",
    ]


def test_with_rich_a_bar_is_shown_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    text = shown(Terminal())
    assert "Joining the model's weights (only once)" in text
    assert "100%" in text
    assert text.endswith("\x1b[2K")


def test_a_file_and_quiet_output_get_nothing() -> None:
    assert shown(io.StringIO()) == ""
    assert shown(Terminal(), quiet=True) == ""
