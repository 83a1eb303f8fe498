"""The question whether a function can do what a request asks for. Pure.

A small model calls some function for almost every request. Asked with worked examples, it knows
better. The answer is a probability, so that a doubtful Yes can count less than a sure one.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from windlass.content import FunctionDeclaration, Message
from windlass.emulation.prompt import quoted
from windlass.model import ModelRequest, Settings

_SYSTEM = "You decide whether a function can do exactly what a request asks for. Answer Yes or No."
_PAIR = "Request: {request}\nFunction: {function}\nCan this function do what the request asks for?"
_EXAMPLES = (
    ("Is it warm in Cairo today?", "get_weather(city, unit): Current weather of a city.", True),
    (
        "What is the volume of a cone with radius 3 and height 7?",
        "calculate_discount(price, percent): The price after a discount.",
        False,
    ),
    ("Who discovered penicillin?", "find_book(title): Finds a book by its title.", False),
    (
        "How far is it from Rome to Milan by car?",
        "route_distance(start, end, unit): Distance between two cities by road.",
        True,
    ),
    (
        "Find the longest side of a triangle with sides 3, 4 and x.",
        "triangle_area(base, height): The area of a triangle from its base and height.",
        False,
    ),
    (
        "Book a table for two in Lyon tonight.",
        "reserve_restaurant(city, people, time): Reserves a table in a restaurant.",
        True,
    ),
    (
        "What will the share price of Tesla be next year?",
        "get_stock_price(symbol): The current price of a share.",
        False,
    ),
    (
        "I want to hear something by Miles Davis.",
        "play_music(artist, volume): Plays songs of an artist.",
        True,
    ),
)
_MAX_FUNCTION_CHARS = 400
_TOP_TOKENS = 5
"""Yes and No are among the most likely tokens, in several spellings."""


def asking(request: str, function: str) -> ModelRequest:
    """Asks whether the function can do what the request asks for. The answer is one token."""
    messages = [Message.system(_SYSTEM)]
    for asked, offered, fits in _EXAMPLES:
        text = _PAIR.format(request=asked, function=offered)
        messages += [Message.user(text), Message.assistant("Yes" if fits else "No")]
    messages.append(Message.user(_PAIR.format(request=request, function=function)))
    settings = Settings(max_tokens=1, temperature=0.0, logprobs=True, top_logprobs=_TOP_TOKENS)
    return ModelRequest(tuple(messages), settings=settings)


def described(tool: FunctionDeclaration) -> str:
    """Returns the function's name, parameters and description, as one line without markers."""
    names = ", ".join(tool.parameters.get("properties") or {})
    text = " ".join(tool.description.split())
    return quoted(f"{tool.name}({names}): {text}"[:_MAX_FUNCTION_CHARS])[1:-1]


def first_token(logprobs: Mapping[str, Any] | None) -> dict[str, float]:
    """Returns the likely first tokens of an answer, in lower case, with their probabilities.

    Empty if the model does not report them.
    """
    try:
        content: Any = (logprobs or {}).get("content")
        top: Iterable[Any] = content[0]["top_logprobs"] if content else ()
        likely: dict[str, float] = {}
        for each in top:
            token = str(each["token"]).strip().lower()
            likely[token] = likely.get(token, 0.0) + math.exp(float(each["logprob"]))
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        return {}
    return likely


def fit(answer: str, likely: Mapping[str, float]) -> float:
    """Returns how likely it is that the function fits, from the answer to the question."""
    yes, no = likely.get("yes", 0.0), likely.get("no", 0.0)
    if yes + no > 0:
        return yes / (yes + no)
    return 0.0 if answer.strip().lower().startswith("no") else 1.0


_WORD = re.compile(r"[^\W_]+")
_MONTH = re.compile(r"\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*", re.IGNORECASE)
PLAIN_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "at",
        "by",
        "for",
        "from",
        "how",
        "in",
        "is",
        "of",
        "on",
        "or",
        "that",
        "the",
        "this",
        "to",
        "what",
        "which",
        "with",
        "you",
    ]
)
_STEM = 4
"""Words that begin with the same letters count as the same word, such as Italy and Italian."""


def is_made_up(value: object, said: str) -> bool:
    """Whether a text, or one in a list, has no word of what was said.

    Short texts and codes such as cm or EUR, dates, and translations are not judged.
    """
    if isinstance(value, list):
        return any(is_made_up(each, said) for each in cast("list[object]", value))
    if not isinstance(value, str) or not value.isascii() or not said.isascii():
        return False
    if len(value) < _STEM or (value.isupper() and len(value) == _STEM):
        return False
    said = said.lower()
    if any(map(str.isdigit, value)):
        value = _MONTH.sub("", re.sub(r"\d", " ", value))
        words = [word for word in _WORD.findall(value.lower()) if len(word) >= _STEM]
    else:
        words = _WORD.findall(value.lower())
    words = [word for word in words if word not in PLAIN_WORDS]
    known = set(_WORD.findall(said))
    stems = {word[:_STEM] for word in known if len(word) >= _STEM}
    return bool(words) and not any(
        word in known or (len(word) >= _STEM and (word[:_STEM] in stems or word in said))
        for word in words
    )


def split_name(name: str) -> str:
    """Returns the words of a name such as `get_price` or `getPrice`, with spaces between them."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name)


def is_month(word: str) -> bool:
    return _MONTH.fullmatch(word) is not None


def words_of(name: str) -> str:
    """Returns the words of a parameter's name that mean something: without "is" or "has"."""
    words = split_name(name).split()
    return " ".join([word for word in words if len(word) >= _STEM] or words)


def shared_words(text: str, said: str) -> set[str]:
    """Returns the numbers and the stems of words that a text has in common with what was said."""
    return _stems(text) & _stems(said)


def _stems(text: str) -> set[str]:
    words = _WORD.findall(text.lower())
    return {
        word[:_STEM]
        for word in words
        if word not in PLAIN_WORDS and (len(word) > 2 or word.isdigit())
    }
