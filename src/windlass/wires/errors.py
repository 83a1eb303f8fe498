"""What a client receives when its request fails, whichever wire it came by. Pure."""

from msgspec import Struct

from windlass.errors import WindlassError


class Problem(Struct, frozen=True):
    """One error for a client; each wire writes it in its own shape."""

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    type: str | None = None
    retry_after: float | None = None


class InvalidRequest(WindlassError):
    """A request that cannot be served as it is; `param` is the place of the mistake."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.param, self.code = message, param, code
