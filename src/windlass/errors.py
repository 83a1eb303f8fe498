"""The errors that Windlass raises.

WindlassError
├── ModelError              the model's service refused, failed or was unreachable
│   ├── StreamCut           the model's answer was interrupted
│   └── NativeModeUnavailable   native function calling failed, and the fallback is disabled
├── ToolError               raised by a tool to send its text to the model
│   └── InvalidArguments    the model's arguments do not match the tool; names the field
├── RoundLimitExceeded      `on_limit="error"`: the model still calls tools after the last round
├── BudgetExceeded          `on_limit="error"`: the model still calls tools after the budget
├── OutputInvalid           `output=`: the answer is not a valid value, also after the retries
├── RunInterrupted          the process of a run exited; the message says what to do
├── StorageError            the log of runs cannot be read or written
├── RunNotFound             the run id is unknown, or the run was forgotten
├── TooManyRuns             the limit of active runs is reached
└── ConfigError             a wrong setup: a name, a key, a tool, an option
    └── DuplicateTool       two tools of one set have the same name

Any other exception of a tool is not raised: it is logged, and the model gets an error result.
"""

import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.content import FunctionCall, Message, Usage

__all__ = [
    "BudgetExceeded",
    "ConfigError",
    "DuplicateTool",
    "InvalidArguments",
    "ModelError",
    "NativeModeUnavailable",
    "OutputInvalid",
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
    """The base class of the errors that Windlass raises."""


def raisable(error: Exception) -> Exception:
    """Returns a copy of a stored error that may be raised many times; foreign errors unchanged.

    Raising an object adds frames to its traceback. Those frames often refer to the object that
    stores the error, which makes a reference cycle, and readers would see each other's frames.
    """
    if not isinstance(error, WindlassError):
        return error
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    copy.__cause__, copy.__context__ = error.__cause__, error.__context__
    copy.__suppress_context__ = error.__suppress_context__
    return copy.with_traceback(error.__traceback__)


def clear_frames(error: BaseException | None) -> None:
    """Clears the local variables in the tracebacks of a handled error.

    They refer to the data of the failed code, often in a reference cycle with the error.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


class ModelError(WindlassError):
    """The model's service refused, failed or was unreachable.

    `message` is the service's own text; `str()` adds the HTTP status and the retry time, if known.
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
        """`public` is the message without the service's address.

        `{upstream}` in it is replaced by the service's name. None means that `message` has no
        address.
        """
        super().__init__(message)
        self.message = message
        self.public = public
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.code = code
        self.usage: Usage | None = None
        """The tokens that the service reported before it failed."""

    def __str__(self) -> str:
        named = (f"HTTP {self.status}", f"HTTP status {self.status}")
        facts = self.facts if not any(text in self.message for text in named) else self._retry_time
        return f"{self.message} ({', '.join(facts)})" if facts else self.message

    @property
    def facts(self) -> list[str]:
        """The status and the retry time as text: `HTTP 429`, `retry after 20 s`."""
        return [*([] if self.status is None else [f"HTTP {self.status}"]), *self._retry_time]

    @property
    def _retry_time(self) -> list[str]:
        return [] if self.retry_after is None else [f"retry after {self.retry_after:g} s"]


class StreamCut(ModelError):
    """The model's answer was interrupted. None of its calls ran."""

    def __init__(
        self, message: str = "the model's stream ended before its turn was complete"
    ) -> None:
        super().__init__(message, retryable=True)


class NativeModeUnavailable(ModelError):
    """Native function calling failed, and the fallback is disabled.

    `reason` is the text of the model or page that failed; `type` is the error type on the wire.
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
        self.usage = problem.usage if problem else None

    def __str__(self) -> str:
        """Returns the message only, because its form is fixed."""
        return self.message


class ToolError(WindlassError):
    """Raise it in a tool to send its text to the model."""

    def __init__(
        self, message: str, *, retryable: bool = False, effect_unknown: bool = False
    ) -> None:
        """`effect_unknown` means that the tool may or may not have had its effect."""
        super().__init__(message)
        self.message = message
        self.retryable = retryable
        self.effect_unknown = effect_unknown


class InvalidArguments(ToolError):
    """The model's arguments do not match the tool; names each wrong field and what is expected."""


class RoundLimitExceeded(WindlassError):
    """The model still calls tools after the last round; `messages` is the conversation so far."""

    def __init__(
        self, max_rounds: int, messages: "Sequence[Message]", calls: "Sequence[FunctionCall]"
    ) -> None:
        super().__init__(f"the model still calls tools after {max_rounds} rounds")
        self.max_rounds = max_rounds
        self.messages = tuple(messages)
        self.calls = tuple(calls)


class BudgetExceeded(WindlassError):
    """The model still calls tools, but a budget of the run is used up."""

    def __init__(
        self,
        budget: str,
        usage: "Usage",
        messages: "Sequence[Message]",
        calls: "Sequence[FunctionCall]",
    ) -> None:
        """`budget` is the option that set it; `messages` is the conversation so far."""
        super().__init__(f"the model still calls tools, but the run has used up its {budget}")
        self.budget = budget
        self.usage = usage
        self.messages = tuple(messages)
        self.calls = tuple(calls)


class OutputInvalid(WindlassError):
    """The answer is not a valid value of the requested type; `text` is the last answer.

    `errors` says what is wrong with it, one text for each field.
    """

    def __init__(self, message: str, *, text: str = "", errors: "Sequence[str]" = ()) -> None:
        super().__init__(message)
        self.text = text
        self.errors = tuple(errors)


class RunInterrupted(WindlassError):
    """The process of a run exited.

    The message says how to resume it, or why it cannot be resumed.
    """


class StorageError(WindlassError):
    """The log of runs cannot be read or written. Its earlier content is unchanged."""


class RunNotFound(WindlassError, LookupError):
    """The run id is unknown."""


class TooManyRuns(WindlassError):
    """The limit of active runs is reached; finished runs do not count."""


class ConfigError(WindlassError, ValueError):
    """The program's setup is wrong; the message says what and where."""


class DuplicateTool(ConfigError):
    """Two tools of one set have the same name."""
