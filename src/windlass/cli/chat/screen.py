"""The terminal's lower end: what is done is printed for good, what goes on is drawn anew."""

import math

from rich.console import Console, Group, RenderableType
from rich.control import Control
from rich.segment import ControlType, Segment, Segments
from rich.text import Text

from windlass.cli.chat import render
from windlass.cli.chat.view import Block, View

__all__ = ["Screen"]


class Screen:
    """Shows one run after the other, and what is said between them."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._drawn: list[int] = []
        """The widths of the lines that are drawn and will be drawn over."""
        self._printed = 0

    def begin(self) -> None:
        """A new run is going to be shown."""
        self._printed = 0
        self.console.print()
        self.console.show_cursor(False)

    def show(self, view: View, now: float, hint: str = "") -> None:
        """Brings the screen to where the run is."""
        with self.console:
            self.clear()
            for block in self._newly_done(view):
                self.say(render.block(block, now))
            going = [render.block(block, now) for block in view.blocks[self._printed :]]
            if view.seconds is None:
                going.append(render.live_line(view, now, hint))
            self._draw(going)

    def end(self, view: View) -> None:
        """The run has ended: what is left of it, and its last line."""
        self.show(view, 0.0)
        self.clear()
        if view.reason not in (None, "error"):
            self.say(render.ending(view))
        self.console.show_cursor(True)

    def say(self, part: RenderableType) -> None:
        """Prints something for good, and an empty line."""
        # In a group a text keeps its own rules for what is too long.
        self.console.print(Group(part, Text()))

    def clear(self) -> None:
        """Takes away what is drawn, so that others may write."""
        # A terminal that has become narrower has broken the lines that are too long for it.
        width = self.console.width
        rows = sum(max(1, math.ceil(drawn / width)) for drawn in self._drawn)
        self._drawn = []
        if rows:
            erased = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)) * rows
            self.console.control(Control(ControlType.CARRIAGE_RETURN, *erased))

    def _newly_done(self, view: View) -> list[Block]:
        done: list[Block] = []
        for block in view.blocks[self._printed :]:
            if not block.done:
                break
            done.append(block)
        self._printed += len(done)
        return done

    def _draw(self, parts: list[RenderableType]) -> None:
        """Draws as much of the end as fits on the screen."""
        spaced = [piece for part in parts for piece in (Text(), part)][1:]
        lines = self.console.render_lines(Group(*spaced), pad=False)
        lines = lines[-max(self.console.height - 2, 1) :] if spaced else []
        for line in lines:
            self.console.print(Segments([*line, Segment.line()]), end="")
        self._drawn = [Segment.get_line_length(line) for line in lines]
