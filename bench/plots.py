"""Draws the plots of the documentation: bar charts in SVG, from the figures of `make bench`.

    python bench/plots.py      draws all plots from docs/images/bench/figures.json

Each plot has a light and a dark version. The benchmarks replace the figures that they have measured
and keep the others.
"""

import json
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent.parent / "docs" / "images" / "bench"
FIGURES = FOLDER / "figures.json"
WIDTH, LABEL, ROW, TOP, BOTTOM, END = 500, 148, 32, 54, 12, 62


class Theme(NamedTuple):
    text: str
    muted: str
    own: str  # the bars of Windlass
    other: str


THEMES = {
    "light": Theme(text="#1f2328", muted="#59636e", own="#0a7d6c", other="#8a9199"),
    "dark": Theme(text="#e6edf3", muted="#9aa4ae", own="#3fc3ad", other="#79828c"),
}


class Plot(NamedTuple):
    title: str
    unit: str
    bars: dict[str, float]

    def svg(self, theme: Theme) -> str:
        """Returns an SVG image with horizontal bars, each with its figure. The shortest is best."""
        largest = max(self.bars.values())
        height = TOP + ROW * len(self.bars) + BOTTOM
        summary = ", ".join(f"{name} {_figure(value)}" for name, value in self.bars.items())
        lines = [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
                f' width="{WIDTH}" height="{height}" role="img"'
                ' font-family="system-ui, -apple-system, Segoe UI, sans-serif">'
            ),
            f"<title>{escape(self.title)}</title>",
            f"<desc>{escape(f'{self.unit}: {summary}')}</desc>",
            (
                f'<text x="0" y="20" font-size="17" font-weight="600" fill="{theme.text}">'
                f"{escape(self.title)}</text>"
            ),
            (
                f'<text x="0" y="40" font-size="13" fill="{theme.muted}">'
                f"{escape(self.unit)}, less is better</text>"
            ),
        ]
        for row, (name, value) in enumerate(self.bars.items()):
            top = TOP + ROW * row
            own = name.startswith("windlass")
            length = max((WIDTH - LABEL - END) * value / largest, 2)
            weight = ' font-weight="600"' if own else ""
            lines += [
                (
                    f'<text x="{LABEL - 12}" y="{top + 20}" font-size="14"{weight}'
                    f' text-anchor="end" fill="{theme.text}">{escape(name)}</text>'
                ),
                (
                    f'<rect x="{LABEL}" y="{top + 5}" width="{length:.1f}" height="21" rx="3"'
                    f' fill="{theme.own if own else theme.other}"/>'
                ),
                (
                    f'<text x="{LABEL + length + 8:.1f}" y="{top + 20}" font-size="14"{weight}'
                    f' fill="{theme.text}">{_figure(value)}</text>'
                ),
            ]
        return "\n".join([*lines, "</svg>\n"])


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def read() -> dict[str, Plot]:
    if not FIGURES.exists():
        return {}
    stored = json.loads(FIGURES.read_text())["plots"]
    return {
        name: Plot(title=each["title"], unit=each["unit"], bars=each["bars"])
        for name, each in stored.items()
    }


def rendered(plots: dict[str, Plot]) -> dict[str, str]:
    """Returns the text of each file."""
    return {
        f"{name}-{theme}.svg": plot.svg(colours)
        for name, plot in plots.items()
        for theme, colours in THEMES.items()
    }


def draw(plots: dict[str, Plot]) -> None:
    """Stores these figures next to the earlier ones, and draws all plots."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    every = {**read(), **plots}
    stored = {"measured": datetime.now(UTC).date().isoformat()}
    shown = {name: plot._asdict() for name, plot in every.items()}
    FIGURES.write_text(json.dumps({**stored, "plots": shown}, indent=2) + "\n")
    for name, text in rendered(every).items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    for name, text in rendered(read()).items():
        (FOLDER / name).write_text(text)
