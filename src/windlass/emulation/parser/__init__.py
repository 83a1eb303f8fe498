"""The parser of calls in text, and the writer of calls as text.

One engine (`engine`) reads all formats; each format is a table (`formats`).
"""

from windlass.emulation.parser.engine import Parser
from windlass.emulation.parser.format import Format
from windlass.emulation.parser.formats import DEFAULT_FORMAT, FORMATS
from windlass.emulation.parser.render import render_call, render_calls

__all__ = ["DEFAULT_FORMAT", "FORMATS", "Format", "Parser", "render_call", "render_calls"]
