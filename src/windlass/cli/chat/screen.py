"""The screen of a chat: draws blocks with rich, prints finished blocks, and redraws the others.

Text of models and tools passes `visible`. The output of the Markdown renderer passes it again,
because Markdown can encode characters.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.control import Control
from rich.markdown import Markdown
from rich.panel import Panel
from rich.segment import ControlType, Segment, Segments
from rich.table import Table
from rich.text import Text

from windlass.cli.chat.view import (
    Block,
    Card,
    CardRow,
    CardState,
    Notice,
    RunView,
    Speech,
    Thinking,
)
from windlass.cli.output import cut, one_line, visible
from windlass.content import Usage
from windlass.jsontext import compact_json

STATES: dict[CardState, tuple[str, str]] = {
    "writing": ("…", "dim"),
    "waiting": ("○", "dim"),
    "asking": ("?", "yellow"),
    "running": ("●", "cyan"),
    "done": ("✔", "green"),
    "failed": ("✘", "red"),
    "denied": ("⊘", "yellow"),
    "stopped": ("■", "yellow"),
    "not run": ("■", "dim"),
}
"""The symbol and the colour of each state."""

_TONES = {"quiet": "dim", "warning": "yellow", "error": "red"}
MIN_CARD_WIDTH = 38
MAX_LINES = 4
"""Of the arguments, and of the result, on a card."""
MAX_THOUGHT_LINES = 3
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def draw_block(shown: Block, now: float) -> RenderableType:
    """The block at the time `now` (Unix seconds)."""
    match shown:
        case Speech(text=text):
            return _SafeMarkdown(Markdown(visible(text), hyperlinks=False))
        case Thinking():
            return _thinking(shown)
        case CardRow(cards=cards):
            return _SideBySide([_card(card, now) for card in cards])
        case Notice(text=text, tone=tone):
            return Text(one_line(text) if tone == "error" else visible(text), style=_TONES[tone])
        case _:
            assert_never(shown)


def draw_live_line(view: RunView, now: float, hint: str) -> RenderableType:
    """The line under an active run: round, time, and what Ctrl-C does."""
    sign = _SPINNER[int(now * 10) % len(_SPINNER)]
    if not view.began:
        return _dim_line(sign, "starting", hint)
    return _dim_line(sign, view.budget, f"{max(now - view.began, 0.0):.1f} s", hint)


def draw_ending(view: RunView) -> RenderableType:
    """The line under an ended run: rounds, tokens, time and model."""
    unused = view.reason == "error" and not view.usage.total_tokens
    used = [] if unused else [token_summary(view.usage)]
    return _dim_line(view.budget, *used, f"{view.seconds or 0.0:.1f} s", view.model)


def token_summary(usage: Usage) -> str:
    """Input and output tokens, with cached and thought tokens if there are any."""
    more = [
        f"{count} {what}"
        for count, what in ((usage.cached_tokens, "cached"), (usage.thought_tokens, "thought"))
        if count
    ]
    extra = f" ({', '.join(more)})" if more else ""
    return f"{usage.input_tokens} in, {usage.output_tokens} out{extra}"


def draw_full_card(card: Card) -> RenderableType:
    """A card with complete arguments and results."""
    parts = [
        Text(visible(card.arguments_text)),
        Text("→", style="dim"),
        Text(visible(card.result_text)),
    ]
    return _panel(card, Group(*parts), 0.0)


def _card(card: Card, now: float) -> RenderableType:
    lines = [*_arguments(card)]
    if card.state == "running":
        lines += _progress(card)
    if card.ended:
        lines += _result(card)
    return _panel(card, Group(*lines), now)


def _panel(card: Card, body: RenderableType, now: float) -> Panel:
    sign, style = STATES[card.state]
    title = Text(f"{sign} {one_line(card.name)}", style=f"bold {style}")
    return Panel(
        body,
        title=title,
        title_align="left",
        subtitle=Text(_card_state(card, now), style=style),
        subtitle_align="right",
        border_style=style,
    )


def _card_state(card: Card, now: float) -> str:
    parts = [card.state]
    if card.state == "running":
        parts.append(f"{max(now - card.began, 0.0):.1f} s")
    elif card.seconds:
        parts.append(f"{card.seconds:.2f} s" if card.seconds < 10 else f"{card.seconds:.0f} s")
    if card.effect_unknown:
        parts.append("may have had an effect")
    if card.crashed:
        parts.append("/last shows the traceback")
    if card.attempts > 1:
        parts.append(f"{card.attempts} attempts")
    if card.cached:
        parts.append("cached")
    return " · ".join(parts)


def _arguments(card: Card) -> Iterator[Text]:
    arguments = card.arguments
    if isinstance(arguments, str):
        yield _cut_line(arguments)
    else:
        yield from _fields(arguments)


def _fields(values: Mapping[str, object]) -> Iterator[Text]:
    """A line for each value, up to `MAX_LINES`."""
    for name, value in list(values.items())[:MAX_LINES]:
        line = _cut_line(f"{name}: {compact_json(value)}")
        line.stylize("dim", 0, len(visible(name)) + 1)
        yield line
    if len(values) > MAX_LINES:
        yield Text(f"… {len(values) - MAX_LINES} more: /last", style="dim")


def _progress(card: Card) -> Iterator[Text]:
    if card.progress is not None:
        filled = round(card.progress * 20)
        bar = "━" * filled + "╌" * (20 - filled)
        yield Text(f"{bar} {card.progress:.0%}", style="cyan", no_wrap=True, overflow="ellipsis")
    if card.message is not None:
        yield _cut_line(card.message)


def _result(card: Card) -> Iterator[Text]:
    arrow = Text("→ ", style="dim")
    for number, line in enumerate(
        _fields(card.fields) if card.fields else _result_lines(card.result)
    ):
        yield Text.assemble(arrow if number == 0 else "  ", line, no_wrap=True, overflow="ellipsis")


def _result_lines(result: str) -> Iterator[Text]:
    lines = visible(result).strip().splitlines() or ["(nothing)"]
    yield from (_cut_line(line) for line in lines[:MAX_LINES])
    if len(lines) > MAX_LINES:
        yield Text(f"… {len(lines) - MAX_LINES} more lines: /last", style="dim")


def _cut_line(text: str) -> Text:
    # rich would measure a very long line cell by cell before it cuts it.
    return Text(cut(visible(text).replace("\n", " "), 500), no_wrap=True, overflow="ellipsis")


def _thinking(thinking: Thinking) -> RenderableType:
    if thinking.done:
        took = f"{thinking.seconds or 0.0:.1f} s"
        folded = f"✻ thought for {took}: {cut(one_line(thinking.text), 500)}"
        return Text(folded, style="dim italic", no_wrap=True, overflow="ellipsis")
    tail = visible(thinking.text[-2000:]).strip().splitlines()[-MAX_THOUGHT_LINES:]
    lines = [Text(cut(line, 500), no_wrap=True, overflow="ellipsis") for line in tail]
    for line in lines:
        line.stylize("dim italic")
    return Group(Text("✻ thinking", style="dim"), *lines)


def _dim_line(*words: str) -> Text:
    shown = " · ".join(one_line(word) for word in words if word)
    return Text(shown, style="dim", no_wrap=True, overflow="ellipsis")


class _SideBySide:
    """Places items side by side as the width allows."""

    def __init__(self, items: list[RenderableType]) -> None:
        self._items = items

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = min(len(self._items), max(1, options.max_width // MIN_CARD_WIDTH))
        grid = Table.grid(expand=True)
        for _ in range(columns):
            grid.add_column(ratio=1)
        for row in _rows(self._items, columns):
            grid.add_row(*row)
        yield grid


def _rows(items: list[RenderableType], columns: int) -> Iterable[list[RenderableType]]:
    return (items[start : start + columns] for start in range(0, len(items), columns))


class _SafeMarkdown:
    """Rendered Markdown without control characters."""

    def __init__(self, markdown: Markdown) -> None:
        self._markdown = markdown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._markdown, options):
            yield Segment(visible(segment.text), segment.style, segment.control)


class Screen:
    """Shows runs one after the other, and notices between them."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._drawn: list[int] = []
        """The widths of the lines that will be redrawn."""
        self._printed = 0

    def begin(self) -> None:
        """Prepares the screen for a new run."""
        self._printed = 0
        self.console.print()
        self.console.show_cursor(False)

    def show(self, view: RunView, now: float, hint: str = "") -> None:
        """Draws the current state of the run."""
        with self.console:
            self.clear()
            for block in self._newly_done(view):
                self.say(draw_block(block, now))
            active = [draw_block(block, now) for block in view.blocks[self._printed :]]
            if view.seconds is None:
                active.append(draw_live_line(view, now, hint))
            self._draw(active)

    def end(self, view: RunView) -> None:
        """Prints the rest of an ended run and its last line."""
        self.show(view, 0.0)
        self.clear()
        if view.reason not in (None, "error"):
            self.say(draw_ending(view))
        self.console.show_cursor(True)

    def say(self, part: RenderableType) -> None:
        """Prints a part that will not be redrawn, and an empty line."""
        # In a group, a text keeps its own overflow rules.
        self.console.print(Group(part, Text()))

    def clear(self) -> None:
        """Erases the lines that would be redrawn."""
        # A terminal that became narrower has wrapped the longer lines.
        width = self.console.width
        rows = sum(max(1, math.ceil(drawn / width)) for drawn in self._drawn)
        self._drawn = []
        if rows:
            erased = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)) * rows
            self.console.control(Control(ControlType.CARRIAGE_RETURN, *erased))

    def _newly_done(self, view: RunView) -> list[Block]:
        done: list[Block] = []
        for block in view.blocks[self._printed :]:
            if not block.done:
                break
            done.append(block)
        self._printed += len(done)
        return done

    def _draw(self, parts: list[RenderableType]) -> None:
        """Draws the last lines that fit on the screen."""
        spaced = [piece for part in parts for piece in (Text(), part)][1:]
        lines = self.console.render_lines(Group(*spaced), pad=False)
        lines = lines[-max(self.console.height - 2, 1) :] if spaced else []
        for line in lines:
            self.console.print(Segments([*line, Segment.line()]), end="")
        self._drawn = [Segment.get_line_length(line) for line in lines]
