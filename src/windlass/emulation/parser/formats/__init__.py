"""All formats by name. To add a format, add a table to a module of this package."""

from windlass.emulation.parser.format import CallHead, Format, Noise, Thoughts
from windlass.emulation.parser.formats.plain import PLAIN
from windlass.emulation.parser.formats.tags import TAGS
from windlass.emulation.parser.formats.tokens import DEEPSEEK, TOKENS
from windlass.errors import ConfigError

DEFAULT_FORMAT = "windlass"
"""The format that prompts ask for."""

_ALL = (*DEEPSEEK, *TOKENS, *TAGS, *PLAIN)
FORMATS: dict[str, Format] = {each.name: each for each in _ALL}


def _merged() -> Format:
    """Returns the union of all formats. The most certain markers come first."""
    heads: dict[CallHead, None] = {head: None for each in _ALL for head in each.heads}
    thoughts: dict[Thoughts, None] = {mark: None for each in _ALL for mark in each.thoughts}
    noise: dict[Noise, None] = {token: None for each in _ALL for token in each.noise}
    return Format("auto", tuple(heads), tuple(thoughts), tuple(noise))


_AUTO = _merged()


def format_named(name: str) -> Format:
    """Returns the format. Raises `ConfigError`, which lists all formats, for an unknown name."""
    if name == "auto":
        return _AUTO
    if name not in FORMATS:
        raise ConfigError(f"unknown format {name!r} (known: auto, {', '.join(FORMATS)})")
    return FORMATS[name]
