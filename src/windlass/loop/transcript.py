"""The transcript of a run: its messages, rounds and usage. The reply is built from it."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from windlass.content import FunctionCall, FunctionResponse, Message, Usage, size_of_part
from windlass.events import StopReason
from windlass.jsontext import LARGE, offloaded
from windlass.loop.pace import ITEMS_AT_ONCE
from windlass.loop.turn import Turn
from windlass.reply import Calls, Reply, RoundRecord, ToolAnswer, capped
from windlass.tool import Tool


class Transcript:
    """The conversation and its rounds. When all calls have answers, it can be sent to the model."""

    def __init__(
        self, messages: Iterable[Message], tools: Mapping[str, Tool], max_result_chars: int
    ) -> None:
        self.messages = list(messages)
        self.rounds: list[RoundRecord] = []
        self.usage = Usage()
        self._tools = tools
        self._max_result_chars = max_result_chars
        self._shortened: dict[int, tuple[FunctionResponse, FunctionResponse]] = {}
        self._text = ""
        self._rejected: set[int] = set()
        """The ids of the messages of rejected answers."""
        self._pending: Sequence[FunctionCall] = ()

    def add_turn(self, turn: Turn) -> None:
        self.messages.append(turn.message)
        number = len(self.rounds) + 1
        self.rounds.append(
            RoundRecord(
                number,
                turn.message,
                turn.finish,
                turn.usage,
                about=turn.about,
                logprobs=turn.logprobs,
            )
        )
        self.usage += turn.usage
        self._text = turn.message.text

    def add_partial(self, message: Message) -> None:
        """Adds what the model wrote before its turn was interrupted."""
        self.add_turn(Turn(message, (), "other", Usage()))

    def add_answers(self, answers: Sequence[ToolAnswer], pending: Sequence[FunctionCall]) -> None:
        """Adds the answers to the last turn's calls. The caller answers the `pending` ones."""
        shown = tuple(self._shown(answer.response) for answer in answers)
        if answers:
            self.rounds[-1] = replace(self.rounds[-1], answers=tuple(answers), shown=shown)
        if answers and not pending:
            self.messages.append(Message.tool(shown))
        self._pending = pending

    async def shorten(self, answers: Sequence[ToolAnswer]) -> None:
        """Shortens large or many answers for the model without blocking the event loop."""
        many = len(answers) > ITEMS_AT_ONCE
        for number, answer in enumerate(answers, start=1):
            if number % ITEMS_AT_ONCE == 0:
                await asyncio.sleep(0)
            response = answer.response
            if size_of_part(response) > LARGE:
                shown = await offloaded(capped, response, self._max_result_chars)
            elif many:
                shown = capped(response, self._max_result_chars)
            else:
                continue
            self._shortened[id(response)] = (response, shown)

    def _shown(self, response: FunctionResponse) -> FunctionResponse:
        """Returns the shortened copy that the model receives."""
        known = self._shortened.pop(id(response), None)
        return known[1] if known else capped(response, self._max_result_chars)

    def add_text(self, text: str) -> None:
        """Replaces an empty answer of the model."""
        if not self.messages[-1].parts:
            self.messages.pop()
        self.messages.append(Message.assistant(text))
        self._text = text

    def add_feedback(self, message: Message) -> None:
        """Adds the message about a rejected answer. The reply's messages have neither of them."""
        self._rejected.add(id(message))
        self.rounds[-1] = replace(self.rounds[-1], rejected=True)
        if not self.messages[-1].parts:
            self.messages.pop()
        elif not self.rounds[-1].answers:
            self._rejected.add(id(self.messages[-1]))
        self.messages.append(message)

    def reply(self, stop_reason: StopReason, run_id: str, model: str) -> Reply:
        calls = [call for record in self.rounds for call in record.message.calls]
        return Reply(
            text=self._text,
            messages=tuple(each for each in self.messages if id(each) not in self._rejected),
            rounds=tuple(self.rounds),
            usage=self.usage,
            stop_reason=stop_reason,
            calls=Calls.of(calls, self._tools),
            results=tuple(a.response for record in self.rounds for a in record.answers),
            pending=Calls.of(self._pending, self._tools),
            run_id=run_id,
            model=model,
            max_result_chars=self._max_result_chars,
        )
