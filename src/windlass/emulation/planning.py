"""The prompts that make a small model write a program, and what it writes. Pure.

All prompts begin with the same worked examples, so that a model reads them once. The functions
follow, and then the request.
"""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from windlass.content import Message, Usage
from windlass.emulation.program import ENDS, NO_CALL, Signature, Step, grammar_of
from windlass.emulation.prompt import quoted
from windlass.model import ModelRequest, Settings

_SYSTEM = f"""\
You write the calls of Python functions that a request needs, one per line, each assigned to a \
variable.
- Values come from the request, as literals. A value that another call returns comes from that \
call's variable.
- A parameter takes one value: for two cities, call the function twice.
- Every lookup, calculation and conversion is a call, if a function can do it. Call a function \
only if the request asks for what it does.
- If no function can do what the request asks for, or it is conversation, write: {NO_CALL}"""

_SHARES = '''\
def stock_price(symbol: str):
    """The price of a share in dollars."""

def convert_currency(amount: float, source: str, target: str):
    """Converts an amount of money."""'''
_TRIANGLE = '''\
def triangle_area(base: float, height: float):
    """The area of a triangle."""'''
_CITIES = '''\
def population(city: str):
    """How many people live in a city."""

def find_hotel(city: str, stars: int = 3):
    """Finds a hotel."""'''
_LENGTHS = '''\
def evaluate(formula: str):
    """Evaluates a formula."""

def to_miles(km: float):
    """Converts kilometres to miles."""

def add_note(text: str):
    """Adds a note to the user's list."""

def distance(start: str, end: str):
    """The distance between two cities in km."""'''
_PRICE = '''\
def get_stock_price(symbol: str):
    """The current price of a share."""'''
_MUSIC = '''\
def play_music(artist: str, volume: int = 5):
    """Plays songs of an artist."""

def set_alarm(time: str):
    """Sets an alarm."""'''
_BOOKS = '''\
def find_books(author: str, language: str = "English", max_price: float = None):
    """Finds books of an author."""'''

_EXAMPLES = (
    (
        _SHARES,
        "What does one share of Apple cost in euros?",
        """\
price = stock_price(symbol="AAPL")
euros = convert_currency(amount=price, source="USD", target="EUR")""",
    ),
    (_TRIANGLE, "Find the longest side of a triangle with sides 3, 4 and x.", NO_CALL),
    (
        _CITIES,
        "How many people live in Lyon and in Nice? Also find me a hotel with 4 stars in Lyon.",
        """\
lyon = population(city="Lyon")
nice = population(city="Nice")
hotel = find_hotel(city="Lyon", stars=4)""",
    ),
    (_CITIES, "Who discovered penicillin?", NO_CALL),
    (
        _LENGTHS,
        "How many miles are 12 laps of 0.4 km?",
        'length = evaluate(formula="12 * 0.4")\nmiles = to_miles(km=length)',
    ),
    (
        _LENGTHS,
        "How far is it from Rome to Milan? Add 50 to that.",
        'way = distance(start="Rome", end="Milan")\ntotal = evaluate(formula=f"{way} + 50")',
    ),
    (
        _BOOKS,
        "Which French and German books by Kafka and Hesse are there?",
        """\
kafka_french = find_books(author="Kafka", language="French")
kafka_german = find_books(author="Kafka", language="German")
hesse_french = find_books(author="Hesse", language="French")
hesse_german = find_books(author="Hesse", language="German")""",
    ),
    (_PRICE, "What will the share price of Tesla be next year?", NO_CALL),
    (
        _MUSIC,
        "I want to hear something by Miles Davis.",
        'music = play_music(artist="Miles Davis")',
    ),
    (_MUSIC, "Thanks, you are a great help!", NO_CALL),
)
_MAX_TOKENS = 400
_MAX_RESULT_CHARS = 600
_TOP_TOKENS = 10
"""The probability of `none` counts, also if the model writes a call."""
_END_LIKELY = 0.05
"""How likely the end of a program must be, in place of a further line."""


def _examples() -> list[Message]:
    messages = [Message.system(_SYSTEM)]
    for functions, request, program in _EXAMPLES:
        text = f"{functions}\n\nRequest: {request}"
        messages += [Message.user(text), Message.assistant(program)]
    return messages


_START = tuple(_examples())


class Asked(Struct, frozen=True):
    """A request, the functions for it, and what it may refer to."""

    functions: Sequence[Signature]
    request: str
    facts: str = ""
    """What the caller's system message says, as one line."""
    earlier: str = ""
    """The last messages before the request, one per line."""

    def text(self) -> str:
        parts = [f"# {self.facts}"] * bool(self.facts)
        parts += [each.definition() for each in self.functions]
        parts += [f"Earlier:\n{self.earlier}"] * bool(self.earlier)
        return "\n\n".join((*parts, f"Request: {self.request}"))


def planning(
    asked: Asked, first: Sequence[str] | None = None, begun: str | None = None
) -> ModelRequest:
    """Asks for the program of a request.

    With `first`, the program must begin with a call of one of these functions. With `begun`, its
    first lines are known, and the rest is asked for.
    """
    lines = () if begun is None else (f"{begun}\n",)
    return _request(asked, lines, grammar_of(asked.functions, first))


def continuing(
    asked: Asked, done: Sequence[tuple[Step, Any]], next: Sequence[Signature]
) -> ModelRequest:
    """Asks for a call of one of `next`, now that the results of the steps before it are known."""
    lines: list[str] = []
    for each, output in done:
        shown = quoted(output)[:_MAX_RESULT_CHARS]
        lines += [each.line, f"# {each.variable} is {shown}"]
    program = "\n".join((*lines, ""))
    return _request(asked, (program,), grammar_of(next, one=True))


def _request(asked: Asked, begun: tuple[str, ...], grammar: str) -> ModelRequest:
    messages = (*_START, Message.user(asked.text()), *map(Message.assistant, begun))
    settings = Settings(
        max_tokens=_MAX_TOKENS, temperature=0.0, logprobs=True, top_logprobs=_TOP_TOKENS
    )
    return ModelRequest(messages, settings=settings, extra={"grammar": grammar})


class Written(Struct, frozen=True):
    """What the model wrote, and what it might have written."""

    text: str
    usage: Usage
    likely: dict[int, dict[str, float]]
    """The likely tokens at each place of the text, with their probabilities."""

    def followed_by(self, more: "Written") -> "Written":
        """This and a further line."""
        text = f"{self.text}\n"
        likely = self.likely | {len(text) + place: each for place, each in more.likely.items()}
        return Written(text + more.text, self.usage + more.usage, likely)

    @property
    def is_complete(self) -> bool:
        """Whether the model wrote the end of the program, or the end was likely.

        Without probabilities, the program is complete.
        """
        last = self.text.rpartition("\n")[2]
        likely_end = self.program() != self.text or not any(self.likely.values())
        return not last or last.startswith(ENDS) or likely_end

    def no_call(self) -> float:
        """How likely it is that no call is needed, although the model may have written one."""
        certain = float(self.text.strip() == NO_CALL)
        return self.likely.get(0, {}).get(NO_CALL, 0.0) if self.likely.get(0) else certain

    def program(self) -> str:
        """The text up to the first line in whose place the end was likely.

        A model names a further result because many names share the rest of the probability. It
        then has to call some function, although the request asks for no more.
        """
        for end in re.finditer("\n", self.text):
            likely = self.likely.get(end.end(), {})
            if sum(likely.get(word, 0.0) for word in ENDS) >= _END_LIKELY:
                return self.text[: end.start()]
        return self.text
