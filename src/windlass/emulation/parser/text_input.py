"""An input without a name: JSON arguments if it is an object, otherwise a text."""

import re
from dataclasses import dataclass
from re import Match

from windlass.emulation.parser.arguments import read_arguments, strict_json
from windlass.emulation.parser.call import Reading
from windlass.emulation.parser.escapes import json_escaped, json_string
from windlass.emulation.parser.pattern import WS, Part, Pattern, ahead, alt
from windlass.emulation.parser.source import Step

__all__ = ["TextInput"]

_FENCED = re.compile(r"```(?:json)?\s*(\{.*\})\s*```", re.DOTALL)
_OBJECT = Pattern(ahead("{", WS, alt('"', "'", "}")))


@dataclass(frozen=True, slots=True)
class TextInput:
    end: Part
    """Where the text ends, if it does not go on to the end of everything."""
    exact: bool = False
    """The space at either side belongs to the text."""

    def read(self, reading: Reading, marker: Match[str]) -> Step[None]:
        source = reading.source
        reading.start(reading.meant(marker["name"]))
        if (yield from source.after_space(_OBJECT)) not in (None, "end"):
            yield from read_arguments(reading)
        else:
            text, ended = yield from source.until(Pattern(self.end))
            if not self.exact:
                text = text.strip().removeprefix("**").strip()
            reading.write(self._arguments(reading, text))
            if source.truncated and not ended:
                reading.spoil()
        reading.end()

    def _arguments(self, reading: Reading, text: str) -> str:
        bare = text.strip()
        if not bare:
            return "{}"
        if fenced := _FENCED.fullmatch(bare):
            bare = fenced[1]
        json = strict_json(bare) if bare[:1] in ('"', "{") else None
        if json and json.startswith("{"):
            return json
        parameter = json_escaped(reading.declared.only_parameter(reading.name))
        return f'{{"{parameter}":{json or json_string(text)}}}'
