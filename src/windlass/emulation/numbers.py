"""Numbers in texts, and where they come from: small models make up results of arithmetic. Pure."""

import re
from collections.abc import Iterable, Iterator

from windlass.jsontext import compact_json

_NUMBER = re.compile(r"(?<![a-zA-Z0-9_.])[-+]?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)")
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
"""A number in any place, such as in P4 or 12GB."""
_CLOCK = re.compile(r"\b([01]?\d|2[0-3]):([0-5]\d)")
_ITEM = re.compile(r"(?m)^\s*\d{1,2}[.)]\s")
"""The number of an item in a list."""
_WORDS = {
    word: float(value)
    for value, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        ]
    )
} | {
    "half": 0.5,
    "third": 3.0,
    "quarter": 4.0,
    "fifth": 5.0,
    "tenth": 10.0,
    "twice": 2.0,
    "double": 2.0,
    "triple": 3.0,
    "dozen": 12.0,
    "thirty": 30.0,
    "forty": 40.0,
    "fifty": 50.0,
    "sixty": 60.0,
    "seventy": 70.0,
    "eighty": 80.0,
    "ninety": 90.0,
    "hundred": 100.0,
    "thousand": 1000.0,
    "million": 1e6,
    "billion": 1e9,
    "week": 7.0,
    "decade": 10.0,
    "century": 100.0,
    "quarterly": 4.0,
    "monthly": 12.0,
    "weekly": 52.0,
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = re.compile(rf"\b({'|'.join(_MONTHS)})[a-z]*\b", re.IGNORECASE)
_DATE = re.compile(r"\b(?:\d{4}-\d\d?-\d\d?|\d\d?/\d\d?/\d{4})(?:[T ]\d\d:\d\d(?::\d\d)?)?")
_DAY = re.compile(
    r"\b(?:to(?:day|night|morrow)|yesterday|(?:mon|tues|wednes|thurs|fri|satur|sun)day|weekend"
    rf"|\d+(?:st|nd|rd|th)|\d+[./-]\d+[./-]\d+|{'|'.join(f'{each}[a-z]*' for each in _MONTHS)})\b",
    re.IGNORECASE,
)
"""A day in any words. A date for it needs a year and a calendar, which no text may contain."""
_AFTERNOON = re.compile(r"\b(1?\d)(?::\d\d)?\s*p\.?m\b", re.IGNORECASE)
_WORD = re.compile(rf"\b({'|'.join(_WORDS)})\b", re.IGNORECASE)
_SCALED = re.compile(r"(\d+(?:\.\d+)?)\s?(k|thousand|m|million|bn|billion)\b", re.IGNORECASE)
_SCALES = {"k": 1e3, "t": 1e3, "m": 1e6, "b": 1e9}
"""By the first letter of the word."""
_MAX_CHARS = 20_000
"""How much of a text is read: a small model reads no more of it."""
_SMALL = 3
"""Whole numbers up to this one may count things."""


class Numbers:
    """The numbers that texts and values contain."""

    def __init__(self) -> None:
        self._known: set[float] = set()
        self._has_day = False

    def add(self, value: object) -> None:
        """Adds the numbers of a text, or of any value as JSON."""
        text = (value if isinstance(value, str) else compact_json(value))[:_MAX_CHARS]
        self._has_day = self._has_day or _DAY.search(text) is not None
        self._known.update(value for value, _ in numbers_in(text))
        self._known.update(map(float, _DIGITS.findall(text)))
        self._known.update(_WORDS[word.lower()] for word in _WORD.findall(text))
        self._known.update(_MONTHS.index(name.lower()) + 1.0 for name in _MONTH.findall(text))
        self._known.update(float(hour) + 12 for hour in _AFTERNOON.findall(text))
        for hour, _ in _CLOCK.findall(text):
            self._known |= {float(int(hour) % 12), float(int(hour) % 12 + 12), 12.0}
        for number, word in _SCALED.findall(text):
            self._known.add(float(number) * _SCALES[word[0].lower()])

    @property
    def are_none(self) -> bool:
        return not self._known

    def has(self, value: float, decimals: int) -> bool:
        """Whether the number is a known one, perhaps rounded, or as a percentage."""
        if value == int(value) and value <= _SMALL:
            return True
        return any(
            _same(value, known, decimals)
            or _same(value, known * 100, decimals)
            or _same(value * 100, known, 6)
            for known in self._known
        )

    def are_in(self, text: str) -> bool:
        """Whether the text has one of the numbers, perhaps rounded."""
        return any(
            abs(value - known) <= 0.501 * 10**-decimals
            for value, decimals in numbers_in(text)
            for known in self._known
        )

    def unknown(self, text: str) -> list[float]:
        """The numbers of the text that come from nowhere."""
        if self._has_day:
            text = _DATE.sub(" ", text)
        found = numbers_in(_ITEM.sub(" ", text))
        return [value for value, decimals in found if not self.has(value, decimals)]

    def masked(self, text: str) -> str:
        """The text with "x" in place of the numbers that come from nowhere."""
        return _NUMBER.sub(lambda found: "x" if self.unknown(found[0]) else found[0], text)

    def explain(self, arguments: object) -> bool:
        """Whether all numbers in a call's arguments are known."""
        return not any(self.unknown(text) for text in _texts(arguments))


def numbers_in(text: str) -> Iterator[tuple[float, int]]:
    """The numbers of a text without their signs, and how many decimals each has."""
    for found in _NUMBER.finditer(text):
        digits = found[1].replace(",", "")
        yield float(digits), len(digits.partition(".")[2])


def _same(value: float, known: float, decimals: int) -> bool:
    """Whether `known` is `value` after rounding, or after cutting its decimals."""
    return abs(value - known) < 1.0 * 10**-decimals if decimals or known % 1 else value == known


def _texts(value: object) -> Iterable[str]:
    return [value] if isinstance(value, str) else [compact_json(value)]
