"""The plots of the documentation are drawn from the stored figures of `make bench`."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def plots() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plots", ROOT / "bench" / "plots.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_plot_shows_the_stored_figures() -> None:
    module = plots()
    drawn = module.rendered(module.read())
    assert drawn
    assert {path.name: path.read_text("utf-8") for path in module.FOLDER.glob("*.svg")} == drawn


def test_the_page_about_performance_shows_plots_for_both_themes() -> None:
    page = (ROOT / "docs" / "explanation" / "performance.md").read_text("utf-8")
    shown = re.findall(r"images/bench/(\w+)-(light|dark)\.svg#only-(\w+)\)", page)
    assert shown
    assert all(theme == only for _, theme, only in shown)
    lights = [name for name, theme, _ in shown if theme == "light"]
    assert lights == [name for name, theme, _ in shown if theme == "dark"]


def test_the_longest_bar_is_the_largest_figure() -> None:
    module = plots()
    svg = module.Plot("A & B", "ms", {"windlass": 1.0, "other": 4.0}).svg(module.THEMES["light"])
    widths = [float(each) for each in re.findall(r'<rect [^>]*width="([\d.]+)"', svg)]
    assert widths[1] == 4 * widths[0]
    assert "A &amp; B" in svg
    assert ">4.00<" in svg
