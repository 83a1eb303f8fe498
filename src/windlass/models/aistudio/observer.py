"""The script that watches the page for one turn and reports what changes.

It is started before the prompt is sent, so that nothing is missed, and reads the new turns alone:
the page keeps earlier ones without their content, and a timer in each turn's footer ticks for ever.
A mutation observer is called when the page has changed; nothing is polled.
"""

from pathlib import Path

from windlass.models.aistudio.selectors import selectors_of

__all__ = ["REPORT", "START", "STOP", "names_for_observer"]

REPORT = "windlassReport"
"""The function that the page is given to report with."""

_READ = (
    "generating",
    "turn",
    "user_turn",
    "chunk",
    "text",
    "thought",
    "call",
    "call_name",
    "call_arguments",
    "toast",
    "callout",
    "model_error",
    "token_count",
    "icon",
)


def names_for_observer() -> dict[str, list[str]]:
    """The selectors that the script reads with."""
    return {name: list(selectors_of(name)) for name in _READ}


STOP = "() => { window.windlassWatch?.disconnect(); delete window.windlassWatch; }"

START = (Path(__file__).parent / "observer.js").read_text(encoding="utf-8")
