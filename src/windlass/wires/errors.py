"""The errors that a client receives, on any wire. Pure."""

from msgspec import Struct

from windlass.errors import WindlassError


class Problem(Struct, frozen=True):
    """One error for a client; each wire has its own format for it."""

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    type: str | None = None
    retry_after: float | None = None


class InvalidRequest(WindlassError):
    """An invalid request; `param` is the wrong field."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.param, self.code = message, param, code
