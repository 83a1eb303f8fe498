"""All formats by name. A new one is a table: add it to its family, and it is found by itself."""

from windlass.emulation.parser.format import Format, Head, Noise, Thoughts
from windlass.emulation.parser.formats.plain import PLAIN
from windlass.emulation.parser.formats.tags import TAGS
from windlass.emulation.parser.formats.tokens import DEEPSEEK, TOKENS
from windlass.errors import ConfigError

DEFAULT_FORMAT = "windlass"
"""The format that prompts ask for."""

_EVERY = (*DEEPSEEK, *TOKENS, *TAGS, *PLAIN)
FORMATS: dict[str, Format] = {each.name: each for each in _EVERY}


def _merged() -> Format:
    """Everything at once. What is most certain to be a call comes first."""
    heads: dict[Head, None] = {head: None for each in _EVERY for head in each.heads}
    thoughts: dict[Thoughts, None] = {mark: None for each in _EVERY for mark in each.thoughts}
    noise: dict[Noise, None] = {token: None for each in _EVERY for token in each.noise}
    return Format("auto", tuple(heads), tuple(thoughts), tuple(noise))


_AUTO = _merged()


def format_named(name: str) -> Format:
    """The format. Raises `ConfigError`, which lists them all, if there is none of that name."""
    if name == "auto":
        return _AUTO
    if name not in FORMATS:
        raise ConfigError(f"there is no format {name!r}; there are auto, {', '.join(FORMATS)}")
    return FORMATS[name]
