"""Results that a model invents: after its call it goes on and plays the tool as well. Pure."""

import re

__all__ = ["Inventions"]

_INVENTED = (
    "<tool_response",
    "<tool_result",
    "<function_result",
    "[TOOL_RESULTS]",
    "\nObservation:",
)
_INVENTION = re.compile("|".join(map(re.escape, _INVENTED)))


class Inventions:
    """Finds where a model, after its call, goes on to write the result itself."""

    def __init__(self) -> None:
        self._pending = "\n"  # a call ends a line; this end of it is not text
        self._begun = False

    def feed(self, text: str) -> tuple[str, bool]:
        """What may pass, and whether an invention begins after it."""
        self._pending += text
        found = _INVENTION.search(self._pending)
        end = found.start() if found else len(self._pending) - held_back(self._pending, _INVENTED)
        return self._taken(end), found is not None

    def finish(self) -> str:
        return self._taken(len(self._pending))

    def _taken(self, end: int) -> str:
        taken, self._pending = self._pending[:end], self._pending[end:]
        if self._begun or not taken:
            return taken
        self._begun = True
        return taken[1:]


def held_back(text: str, markers: tuple[str, ...]) -> int:
    """How many characters at the end of the text may be the beginning of a marker."""
    longest = max(map(len, markers)) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(marker.startswith(text[-size:]) for marker in markers):
            return size
    return 0
