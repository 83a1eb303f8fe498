"""The check of an answer that must be a value of a type, and the message about a rejected one."""

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from windlass.content import Message
from windlass.errors import ToolError, clear_frames
from windlass.jsontext import by_size, compact_json
from windlass.loop.threads import in_thread
from windlass.output.spec import Accepted, OutputSpec, Rejected

if TYPE_CHECKING:
    from windlass.output.value import OutputType

OutputValidator: TypeAlias = Callable[[Any], Any | Awaitable[Any]]
"""A function of the caller that gets the value. It raises `ToolError` (or `ValueError`) to reject
it; the model reads the text. It may return another value, and None keeps the value."""

RETRY_STATUS = "The answer is not valid. Asking again..."
_FEEDBACK = "Your answer is not valid:\n{errors}\nAnswer again, with a valid JSON value only."
_SCHEMA = " It must match this JSON Schema: {schema}"


class OutputCheck(Struct, frozen=True):
    """Checks the answers of one run."""

    spec: OutputSpec
    type: "OutputType"
    validator: OutputValidator | None = None

    @classmethod
    def of_schema(cls, spec: OutputSpec) -> "OutputCheck":
        """The check of a run whose Python type is unknown: its values are JSON values."""
        from windlass.output.value import stored_type

        return cls(spec, stored_type(spec))

    async def check(self, text: str) -> Accepted[Any] | Rejected:
        """Returns the value of an answer, or what is wrong with it."""
        outcome = await by_size(len(text), self.type.read, text)
        if isinstance(outcome, Rejected) or self.validator is None:
            return outcome
        try:
            changed = await _called(self.validator, outcome.value)
        except (ToolError, ValueError, AssertionError) as error:
            clear_frames(error)
            return Rejected((str(error) or type(error).__name__,))
        return outcome if changed is None else Accepted(changed)

    def feedback(self, text: str, errors: tuple[str, ...]) -> Message:
        """Returns the message to the model about a rejected answer."""
        message = _FEEDBACK.format(errors="\n".join(f"- {error}" for error in errors))
        if not text.strip().startswith(("{", "[")) and self.spec.schema:
            # The model did not know, or ignored, what it has to write.
            message += _SCHEMA.format(schema=compact_json(self.spec.schema))
        return Message.user(message)


async def _called(validator: OutputValidator, value: Any) -> Any:
    """Calls an async function on the event loop, and any other one in a thread: it may block."""
    if inspect.iscoroutinefunction(validator):
        return await validator(value)
    result = await in_thread(validator, value)
    return await result if inspect.isawaitable(result) else result
