"""When to tell a person that tools are executed: once, and before their results."""

from windlass.events import RoundStarted, RunEvent, Status, ToolRunStarted

__all__ = ["Executing"]

_BEGIN, _END = "Executing ", "..."


class Executing:
    """A tool may start, and even end, while the model still speaks; the status comes after that."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        """The tools of this round that were announced."""

    def said(self, event: RunEvent) -> str:
        """What to say at this event, if anything; the text of any other status as it is."""
        match event:
            case RoundStarted():
                self._told.clear()
                return ""
            case ToolRunStarted(call=call):
                return self._announced({call.name}, f"{_BEGIN}{call.name}{_END}")
            case Status(message=message) if message.startswith(_BEGIN):
                names = message.removeprefix(_BEGIN).removesuffix(_END).split(", ")
                return self._announced(set(names), message)
            case Status(message=message):
                return message
            case _:
                return ""

    def _announced(self, names: set[str], words: str) -> str:
        if names <= self._told:
            return ""
        self._told |= names
        return words
