"""The answers that a worker has given: a call that comes again is not run again."""

from collections import OrderedDict

from windlass.content import FunctionResponse
from windlass.toolsets.remote.frames import Call, Result, encode

REMEMBERED = 1_000
REMEMBERED_BYTES = 1 << 20
"""The largest of them. Of a larger one it is known that it was given."""


class GivenAnswers:
    """By the keys of their calls."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, bytes] = OrderedDict()

    def to(self, key: str) -> bytes | None:
        return self._answers.get(key)

    def keep(self, call: Call, data: bytes) -> None:
        if len(data) > REMEMBERED_BYTES:
            text = f"its answer was lost on the way, and at {len(data)} bytes too large to be kept"
            data = encode(Result(response=failure(call, text), outcome="error"))
        self._answers[call.key] = data
        if len(self._answers) > REMEMBERED:
            self._answers.popitem(last=False)

    def clear(self) -> None:
        self._answers.clear()


def failure(call: Call, text: str) -> FunctionResponse:
    return FunctionResponse(call.name, {"error": text}, call.call_id or call.key)
