"""What the readers of one text share."""

import re
from dataclasses import dataclass, field

from windlass.emulation.parser.declared import Declared, Trust
from windlass.emulation.parser.format import Head
from windlass.emulation.parser.markers import Markers
from windlass.emulation.parser.output import Output
from windlass.emulation.parser.pattern import MORE, More
from windlass.emulation.parser.source import Source, Step
from windlass.events import TextDelta, ThoughtDelta

__all__ = ["Context", "Plain"]


@dataclass(frozen=True, slots=True)
class Plain:
    """What text is while nothing is held back, and what would end it."""

    event: type[TextDelta | ThoughtDelta]
    end: re.Pattern[str]


@dataclass(slots=True)
class Context:
    markers: Markers
    declared: Declared
    named: bool
    """Whether somebody said which format the text is in."""
    source: Source = field(default_factory=Source)
    output: Output = field(default_factory=Output)
    plain: Plain | None = None

    def wait(self, plain: Plain) -> Step[None]:
        """Until more text comes. Plain text need not come this way, if nothing is held back."""
        if self.source.place == len(self.source.text) and self.output.is_flowing(plain.event):
            self.plain = plain
        yield

    def pass_text(self, end: int) -> None:
        source = self.source
        self.output.text(source.text[source.place : end])
        source.place = end

    def trust(self, head: Head) -> Trust:
        """Whoever names a format says that what looks like its calls are calls."""
        return "marked" if head.trust == "declared" and not self.declared else head.trust

    def may_call(self, head: Head, found: re.Match[str] | More) -> bool:
        """Whether the name in the opening may be called, as far as it has one."""
        if head.trust == "declared" and not self.declared and not self.named:
            return False
        if found is MORE or "name" not in found.re.groupindex:
            return True
        return self.declared.meant(found["name"], self.trust(head)) is not None
