"""Whether a run log is writable, and why not."""

from collections.abc import Callable


class LogHealth:
    """A failed write sets `cause`. Only a check clears it: on a full disk small writes may work."""

    def __init__(self) -> None:
        self.cause: str | None = None
        """Why the log is not writable; None if it is."""
        self.on_change: Callable[[str | None], None] | None = None
        """Called with the new cause, in any thread."""

    def failed(self, cause: str) -> None:
        self._set(cause)

    def recovered(self) -> None:
        self._set(None)

    def _set(self, cause: str | None) -> None:
        if cause != self.cause:
            self.cause = cause
            if self.on_change is not None:
                self.on_change(cause)
