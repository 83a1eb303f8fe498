"""The answers that a worker has sent, so that a repeated call does not run again."""

from collections import OrderedDict

from windlass.content import FunctionResponse
from windlass.toolsets.remote.frames import Call, Result, encode

MAX_ANSWERS = 1_000
MAX_ANSWER_BYTES = 1 << 20
"""The maximum size of a stored answer. For a larger one, only an error is stored."""


class GivenAnswers:
    """The last answers, by the keys of their calls."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, bytes] = OrderedDict()

    def to(self, key: str) -> bytes | None:
        return self._answers.get(key)

    def keep(self, call: Call, data: bytes) -> None:
        if len(data) > MAX_ANSWER_BYTES:
            text = f"the answer was lost, and its {len(data)} bytes were too large to store"
            data = encode(Result(response=failure(call, text), outcome="error"))
        self._answers[call.key] = data
        if len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)

    def clear(self) -> None:
        self._answers.clear()


def failure(call: Call, text: str) -> FunctionResponse:
    return FunctionResponse(call.name, {"error": text}, call.call_id or call.key)
