"""Every error that Windlass raises on purpose.

WindlassError
├── ModelError              the model's service refused, failed or could not be reached
│   ├── StreamCut           its answer ended in the middle
│   └── NativeModeUnavailable   native function calling failed, and falling back was not allowed
├── ToolError               raised in a tool, by its author, to say something to the model
│   └── InvalidArguments    the model's arguments do not fit the tool; names the field
├── RoundLimitExceeded      `on_limit="error"`: the model still wants tools after the last round
├── RunInterrupted          a run was interrupted by the end of its process; says what can be done
├── StorageError            the log of runs cannot be read or written
├── RunNotFound             no run with that id is known (or it has been forgotten)
├── TooManyRuns             the bound on running runs is reached
└── ConfigError             the program is set up wrongly: a name, a key, a tool, an option
    └── DuplicateTool       two tools of one set have the same name

A tool that fails in any other way does not raise here: the failure is logged and the model is told.
"""

import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.content import FunctionCall, Message

__all__ = [
    "ConfigError",
    "DuplicateTool",
    "InvalidArguments",
    "ModelError",
    "NativeModeUnavailable",
    "RoundLimitExceeded",
    "RunInterrupted",
    "RunNotFound",
    "StorageError",
    "StreamCut",
    "ToolError",
    "TooManyRuns",
    "WindlassError",
]


class WindlassError(Exception):
    """The root of all errors that Windlass raises on purpose."""


def raisable(error: Exception) -> Exception:
    """A copy of an error that is kept and may be raised many times; a foreign one as it is.

    Raising an object adds the frames of its readers to its traceback. Theirs hold, most often, what
    keeps the error, which would be a reference cycle, and readers would see each other's frames.
    """
    if not isinstance(error, WindlassError):
        return error
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    copy.__cause__, copy.__context__ = error.__cause__, error.__context__
    copy.__suppress_context__ = error.__suppress_context__
    return copy.with_traceback(error.__traceback__)


def clear_frames(error: BaseException | None) -> None:
    """Drops the local variables in the tracebacks of an error that has been handled.

    They hold whatever the failed code was working on, often in a reference cycle with the error.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


class ModelError(WindlassError):
    """The model's service refused, failed or could not be reached.

    `message` is the service's own text; `str()` adds the HTTP status and the time after which to
    try again, where the service gave them.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        code: str | None = None,
        public: str | None = None,
    ) -> None:
        """`public` is the message for readers who must not know the service's address.

        `{upstream}` in it is replaced by a name for the service. None: `message` has no address.
        """
        super().__init__(message)
        self.message = message
        self.public = public
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.code = code

    def __str__(self) -> str:
        named = (f"HTTP {self.status}", f"HTTP status {self.status}")
        facts = self.facts if not any(text in self.message for text in named) else self._retry_time
        return f"{self.message} ({', '.join(facts)})" if facts else self.message

    @property
    def facts(self) -> list[str]:
        """The status and the retry time in words: `HTTP 429`, `retry after 20 s`."""
        return [*([] if self.status is None else [f"HTTP {self.status}"]), *self._retry_time]

    @property
    def _retry_time(self) -> list[str]:
        return [] if self.retry_after is None else [f"retry after {self.retry_after:g} s"]


class StreamCut(ModelError):
    """The model's answer ended in the middle. None of its calls has been run."""

    def __init__(
        self, message: str = "the model's stream ended before its turn was complete"
    ) -> None:
        super().__init__(message, retryable=True)


class NativeModeUnavailable(ModelError):
    """Native function calling failed, and nothing else was allowed; `type` is for the wire.

    `reason` is why, in the words of whoever could not.
    """

    type = "function_calling_error"

    def __init__(self, reason: str, problem: ModelError | None = None) -> None:
        status = problem.status if problem else None
        self.reason = problem.reason if isinstance(problem, NativeModeUnavailable) else reason
        super().__init__(
            f"Native function calling failed: {self.reason}",
            status=status,
            code="native_mode_unavailable",
        )

    def __str__(self) -> str:
        """The message alone: it is a fixed form, and the status is of whatever could not."""
        return self.message


class ToolError(WindlassError):
    """Raise it in a tool to speak to the model: its text is what the model reads."""

    def __init__(
        self, message: str, *, retryable: bool = False, effect_unknown: bool = False
    ) -> None:
        """`effect_unknown`: the tool may or may not have done what it was asked for."""
        super().__init__(message)
        self.message = message
        self.retryable = retryable
        self.effect_unknown = effect_unknown


class InvalidArguments(ToolError):
    """The model's arguments do not fit the tool; names each field and what was expected."""


class RoundLimitExceeded(WindlassError):
    """The model still wants tools after the last round; `messages` is the conversation so far."""

    def __init__(
        self, max_rounds: int, messages: "Sequence[Message]", calls: "Sequence[FunctionCall]"
    ) -> None:
        super().__init__(f"the model still asks for tools after {max_rounds} rounds")
        self.max_rounds = max_rounds
        self.messages = tuple(messages)
        self.calls = tuple(calls)


class RunInterrupted(WindlassError):
    """A run was interrupted by the end of its process.

    The message says how to resume it, or why it cannot be resumed.
    """


class StorageError(WindlassError):
    """The log of runs cannot be read or written. What it held before is untouched."""


class RunNotFound(WindlassError, LookupError):
    """No run with that id is known."""


class TooManyRuns(WindlassError):
    """The bound on running runs is reached; finished ones do not count."""


class ConfigError(WindlassError, ValueError):
    """The program is set up wrongly; the message says what and where."""


class DuplicateTool(ConfigError):
    """Two tools of one set have the same name."""
