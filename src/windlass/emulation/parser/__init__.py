"""Text into calls, and calls into text: one engine, and a table for each format."""

from windlass.emulation.parser.engine import Parser
from windlass.emulation.parser.format import Format
from windlass.emulation.parser.formats import DEFAULT_FORMAT, FORMATS
from windlass.emulation.parser.render import render_call, render_calls

__all__ = ["DEFAULT_FORMAT", "FORMATS", "Format", "Parser", "render_call", "render_calls"]
