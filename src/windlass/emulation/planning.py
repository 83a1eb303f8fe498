"""The prompts that make a small model write a program, and what it writes. Pure.

All prompts begin with the same worked examples, so that a model reads them once. The functions
follow, and then the request.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from windlass.content import Message, Usage
from windlass.emulation.program import (
    DONE,
    NO_CALL,
    OfferedFunction,
    ProgramStep,
    argument_grammar,
    grammar_of,
)
from windlass.emulation.prompt import quoted
from windlass.model import ModelRequest, Settings

_SYSTEM = f"""\
You write the calls of Python functions that a request needs, one per line, each assigned to a \
variable. A comment before each call says what it is for, in the words of the request.
- Values come from the request, as literals, in its own words and with all of them. If the \
description of a parameter asks for another form, they have that form. A value that another call \
returns comes from that call's variable.
- A parameter takes one value: for two cities, call the function twice.
- Every lookup, calculation and conversion is a call, if a function can do it. Call a function \
only if the request asks for what it does.
- After the last call, write: {DONE}
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
    """Finds a hotel."""

def evaluate(formula: str):
    """Evaluates a formula."""'''
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
_TRAINS = '''\
def book_train(origin: str, destination: str, date: str, seats: int = 1, discount: float = None):
    """Books seats in a train.
    origin: The city and country, such as 'Rome, Italy'.
    destination: The city and country, such as 'Rome, Italy'.
    date: The day of the journey, in the format YYYY-MM-DD.
    discount: The share of the price that is not paid."""'''
_GROCERIES = '''\
def order_groceries(items: list[str], shop: str = None, organic: bool = False, \
payment: Literal["cash", "card"] = "cash"):
    """Orders groceries.
    items: What to order.
    shop: The name of the shop.
    payment: How the order is paid."""'''
_BOOKS = '''\
def find_books(author: str, language: str = "English", max_price: float = None):
    """Finds books of an author."""'''

_SAVINGS = '''\
def savings(amount: float, rate: float, years: int):
    """What an amount of money grows to.
    rate: The interest for a year."""'''

_EXAMPLES = (
    (
        _SHARES,
        "What does one share of Apple cost in euros?",
        """\
# the price of one share of Apple
price = stock_price(symbol="AAPL")
# that price in euros
euros = convert_currency(amount=price, source="USD", target="EUR")""",
    ),
    (_TRIANGLE, "Find the longest side of a triangle with sides 3, 4 and x.", NO_CALL),
    (
        _CITIES,
        "How many more people live in Lyon than in Nice? Also find a hotel with 4 stars in Lyon.",
        """\
# how many people live in Lyon
lyon = population(city="Lyon")
# how many people live in Nice
nice = population(city="Nice")
# how many more people live in Lyon than in Nice
more = evaluate(formula=f"{lyon} - {nice}")
# a hotel with 4 stars in Lyon
hotel = find_hotel(city="Lyon", stars=4)""",
    ),
    (_CITIES, "Who discovered penicillin?", NO_CALL),
    (
        _LENGTHS,
        "One lap is 0.4 km. How many miles are 12 laps?",
        """\
# the length of 12 laps of 0.4 km
length = evaluate(formula="12 * 0.4")
# that length in miles
miles = to_miles(km=length)""",
    ),
    (
        _LENGTHS,
        "How far is it from Rome to Milan in miles? Add 50 to that.",
        """\
# how far it is from Rome to Milan
way = distance(start="Rome", end="Milan")
# that in miles
miles = to_miles(km=way)
# add 50 to that
total = evaluate(formula=f"{miles} + 50")""",
    ),
    (
        _TRAINS,
        "I need 2 seats from Lyon to Turin on the 3rd of May 2023, with 20% off.",
        """\
# 2 seats from Lyon to Turin on the 3rd of May 2023, with 20% off
seats = book_train(origin="Lyon, France", destination="Turin, Italy", date="2023-05-03", \
seats=2, discount=0.2)""",
    ),
    (
        _GROCERIES,
        "Order smoked wild salmon and fresh dill at the Corner Market, I pay by card.",
        """\
# smoked wild salmon and fresh dill at the Corner Market, by card
order = order_groceries(items=["smoked wild salmon", "fresh dill"], shop="Corner Market", \
payment="card")""",
    ),
    (
        _BOOKS,
        "Which French and German books by Kafka and Hesse are there?",
        """\
# French books by Kafka
kafka_french = find_books(author="Kafka", language="French")
# German books by Kafka
kafka_german = find_books(author="Kafka", language="German")
# French books by Hesse
hesse_french = find_books(author="Hesse", language="French")
# German books by Hesse
hesse_german = find_books(author="Hesse", language="German")""",
    ),
    (
        _SAVINGS,
        "I have $900. What do I get after 5 years at 3%? I also consider a rate of 4%.",
        """\
# $900 after 5 years at 3%
three = savings(amount=900, rate=0.03, years=5)
# $900 after 5 years at 4%
four = savings(amount=900, rate=0.04, years=5)""",
    ),
    (_PRICE, "What will the share price of Tesla be next year?", NO_CALL),
    (
        _MUSIC,
        "I want to hear something by Miles Davis.",
        """\
# something by Miles Davis
music = play_music(artist="Miles Davis")""",
    ),
    (_MUSIC, "Thanks, you are a great help!", NO_CALL),
)
_MAX_TOKENS = 600
_MAX_RESULT_CHARS = 600
_TOP_TOKENS = 10
"""The probability of `none` counts, also if the model writes a call."""


def _examples() -> list[Message]:
    messages = [Message.system(_SYSTEM)]
    for functions, request, program in _EXAMPLES:
        text = f"{functions}\n\nRequest: {request}"
        ended = program if program == NO_CALL else f"{program}\n{DONE}"
        messages += [Message.user(text), Message.assistant(ended)]
    return messages


_START = tuple(_examples())


class Asked(Struct, frozen=True):
    """A request, the functions for it, and what it may refer to."""

    functions: Sequence[OfferedFunction]
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


def planning(asked: Asked, first: Sequence[str] | None = None) -> ModelRequest:
    """Asks for the program of a request.

    With `first`, the program must begin with a call of one of these functions.
    """
    return _request(asked, (), grammar_of(asked.functions, first))


def continuing(
    asked: Asked,
    done: Sequence[tuple[ProgramStep, Any]],
    next: Sequence[OfferedFunction],
    purpose: str = "",
) -> ModelRequest:
    """Asks for a call of one of `next`, now that the results of the steps before it are known.

    `purpose` is the comment of this call; without it, the model writes one.
    """
    lines: list[str] = []
    for each, output in done:
        shown = quoted(output)[:_MAX_RESULT_CHARS]
        lines += [each.text, f"# {each.variable} is {shown}"]
    program = "\n".join((*lines, *([f"# {purpose}"] if purpose else []), ""))
    return _request(asked, (program,), grammar_of(next, one="call" if purpose else "step"))


def adding(asked: Asked, steps: Sequence[ProgramStep]) -> ModelRequest:
    """Asks for one more step of a program that has these."""
    program = "\n".join((*(each.text for each in steps), ""))
    return _request(asked, (program,), grammar_of(asked.functions, one="step"))


def extending(asked: Asked, step: ProgramStep) -> ModelRequest:
    """Asks for one more argument of the first step, with which its line ends."""
    begun = step.text.removesuffix(")") + ","
    return _request(asked, (begun,), argument_grammar(step.function, step.open_parameters))


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

    def no_call(self) -> float:
        """How likely it is that no call is needed, although the model may have written one."""
        certain = float(self.text.strip() == NO_CALL)
        return self.likely.get(0, {}).get(NO_CALL, 0.0) if self.likely.get(0) else certain

    def program_end(self, place: int) -> float:
        """How likely it is that the program ends at this place of the text."""
        certain = float(self.text.startswith(DONE, place))
        return self.likely.get(place, {}).get(DONE, 0.0) if self.likely.get(place) else certain

    def call_end(self, place: int) -> float:
        """How likely it is that a call ends at this place of the text, before a next argument."""
        start = max((each for each in self.likely if each <= place), default=0)
        return sum(p for token, p in self.likely.get(start, {}).items() if token.endswith(")"))
