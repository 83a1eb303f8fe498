"""How far long work is, for the person at the terminal: a bar with rich, lines without it."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from windlass.models.local.weights import OnProgress, WeightsProgress

__all__ = ["progress_shown"]

WORDS = {
    "joining": "Joining the model's weights, once",
    "checking": "Checking the model's weights",
    "loading": "Loading the model",
}
_TENTHS = 10


@contextmanager
def progress_shown(stream: TextIO, *, quiet: bool = False) -> Generator[OnProgress | None]:
    """What to call with each step; None if nobody watches. It may be called in any thread."""
    if quiet or not stream.isatty():
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, TaskID, TextColumn
        from rich.progress import Progress as Bars
    except ModuleNotFoundError:
        yield _lines(stream)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
    )
    with Bars(*columns, console=Console(file=stream), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(progress: WeightsProgress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(WORDS[progress.stage], total=None)
            # Loading has no measure: its bar moves to and fro until it is done.
            measured = progress.stage != "loading" or progress.done == progress.total
            total = progress.total if measured else None
            bars.update(tasks[progress.stage], completed=progress.done, total=total)

        yield show


def _lines(stream: TextIO) -> OnProgress:
    """A line when a stage begins, and at each tenth of it."""
    told: set[tuple[str, int]] = set()

    def show(progress: WeightsProgress) -> None:
        tenth = _TENTHS * progress.done // max(progress.total, 1)
        if (progress.stage, tenth) in told:
            return
        told.add((progress.stage, tenth))
        stream.write(f"{WORDS[progress.stage]}: {tenth * 100 // _TENTHS}%\n")
        stream.flush()

    return show
