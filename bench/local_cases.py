"""What the embedded models are asked: eight tools, and prompts whose right calls are known."""

import ast
import operator
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from windlass import Tool, ToolError, tool

__all__ = ["is_right", "LOOPS", "NO_TOOL", "ONE_TOOL", "TOOLS", "Asked", "Looped", "offered"]

_WEATHER = {"paris": 18, "london": 11, "tokyo": 24, "oslo": 3, "cairo": 33, "madrid": 29}
_TIMES = {"paris": "14:05", "london": "13:05", "tokyo": "22:05", "new york": "08:05"}
_PER_UNIT = {
    "km": 1.0,
    "mile": 1.609344,
    "m": 0.001,
    "kg": 1.0,
    "pound": 0.453592,
    "foot": 0.0003048,
}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
}


@tool
def get_weather(city: str) -> dict[str, Any]:
    """Get the current weather in a city.

    Args:
        city: The city's name.
    """
    return {"city": city, "celsius": _WEATHER.get(city.split(",")[0].lower(), 20), "sky": "sunny"}


@tool
def get_time(city: str) -> str:
    """Get the current local time in a city.

    Args:
        city: The city's name.
    """
    return _TIMES.get(city.split(",")[0].lower(), "12:00")


@tool
def calculate(expression: str) -> float:
    """Evaluate an arithmetic expression.

    Args:
        expression: For example "2 * (3 + 4)".
    """
    return value_of(expression)


@tool
def convert_units(value: float, from_unit: str, to_unit: str) -> float:
    """Convert a value from one unit to another.

    Args:
        value: The number to convert.
        from_unit: The unit it is in, such as km, miles, kg or celsius.
        to_unit: The unit wanted.
    """
    source, target = unit(from_unit), unit(to_unit)
    if (source, target) == ("celsius", "fahrenheit"):
        return round(value * 9 / 5 + 32, 2)
    if (source, target) == ("fahrenheit", "celsius"):
        return round((value - 32) * 5 / 9, 2)
    if source not in _PER_UNIT or target not in _PER_UNIT:
        raise ToolError(f"cannot convert {from_unit} to {to_unit}")
    return round(value * _PER_UNIT[source] / _PER_UNIT[target], 2)


@tool
def search_web(query: str) -> str:
    """Search the web for news and pages.

    Args:
        query: What to search for.
    """
    return f"No page was found for {query}."


@tool
def send_email(to: str, subject: str, body: str) -> str:
    """Send an email to somebody.

    Args:
        to: The address.
        subject: The subject line.
        body: The text.
    """
    return "sent"


@tool
def set_reminder(text: str, time: str) -> str:
    """Set a reminder for a time of day.

    Args:
        text: What to be reminded of.
        time: When, such as 09:30.
    """
    return "set"


@tool
def list_files(path: str) -> list[str]:
    """List the files in a folder.

    Args:
        path: The folder.
    """
    return ["notes.txt", "plan.md"]


TOOLS: tuple[Tool, ...] = (
    get_weather,
    get_time,
    calculate,
    convert_units,
    search_web,
    send_email,
    set_reminder,
    list_files,
)


class Asked(Struct, frozen=True):
    """A prompt that needs one call."""

    prompt: str
    tool: str
    arguments: dict[str, Any]


class Looped(Struct, frozen=True):
    """A task for the whole loop: the tools that it takes, and what the answer must hold."""

    prompt: str
    tools: tuple[str, ...]
    answer: tuple[str, ...]


def _weather(prompt: str, city: str) -> Asked:
    return Asked(prompt, "get_weather", {"city": city})


def _time(prompt: str, city: str) -> Asked:
    return Asked(prompt, "get_time", {"city": city})


def _sum(prompt: str, expression: str) -> Asked:
    return Asked(prompt, "calculate", {"expression": expression})


def _units(prompt: str, value: float, from_unit: str, to_unit: str) -> Asked:
    arguments = {"value": value, "from_unit": from_unit, "to_unit": to_unit}
    return Asked(prompt, "convert_units", arguments)


ONE_TOOL: tuple[Asked, ...] = (
    _weather("What's the weather like in Paris right now?", "Paris"),
    _weather("Tell me the current weather in Tokyo.", "Tokyo"),
    _weather("Is it warm in Cairo today?", "Cairo"),
    _weather("How is the weather in Oslo?", "Oslo"),
    _weather("weather madrid", "Madrid"),
    _time("What time is it in London?", "London"),
    _time("Tell me the local time in New York.", "New York"),
    _time("What's the time in Tokyo now?", "Tokyo"),
    _time("Current time in Paris, please.", "Paris"),
    _time("Could you check what time it is in Sydney?", "Sydney"),
    _sum("What is 1234 * 5678?", "1234 * 5678"),
    _sum("Calculate 15% of 240 as 0.15 * 240.", "0.15 * 240"),
    _sum("How much is 987 + 654?", "987 + 654"),
    _sum("Compute 144 / 12.", "144 / 12"),
    _sum("What's 2 to the power of 10, as 2 ** 10?", "2 ** 10"),
    _units("Convert 10 km to miles.", 10, "km", "miles"),
    _units("How many pounds are 70 kg?", 70, "kg", "pounds"),
    _units("What is 100 fahrenheit in celsius?", 100, "fahrenheit", "celsius"),
    _units("Convert 6 feet to meters.", 6, "feet", "meters"),
    _units("How many kilometers is 26 miles?", 26, "miles", "km"),
)

NO_TOOL: tuple[str, ...] = (
    "Hello!",
    "Thanks, that helped a lot.",
    "Who wrote Romeo and Juliet?",
    "Write a haiku about autumn.",
    "What is the capital of Japan?",
    "Explain in one sentence what a variable is.",
    "How are you today?",
    "Give me a synonym for happy.",
    "Tell me a short joke.",
    "What color do you get when you mix blue and yellow?",
)

LOOPS: tuple[Looped, ...] = (
    Looped("What's the weather like in Paris right now?", ("get_weather",), ("18",)),
    Looped("Tell me the current weather in Tokyo.", ("get_weather",), ("24",)),
    Looped("How is the weather in Oslo?", ("get_weather",), ("3",)),
    Looped("What time is it in London?", ("get_time",), ("13:05|0?1:05",)),
    Looped("Tell me the local time in New York.", ("get_time",), ("0?8:05",)),
    Looped("What is 1234 * 5678?", ("calculate",), ("7006652|7,006,652",)),
    Looped("How much is 987 + 654?", ("calculate",), ("1641|1,641",)),
    Looped("Compute 144 / 12.", ("calculate",), ("12",)),
    Looped("Convert 10 km to miles.", ("convert_units",), ("6.2",)),
    Looped("How many pounds are 70 kg?", ("convert_units",), ("154",)),
    Looped("What is the weather in Paris and in London?", ("get_weather",) * 2, ("18", "11")),
    Looped(
        "What time is it in Tokyo and in New York?", ("get_time",) * 2, ("22:05|10:05", "0?8:05")
    ),
    Looped(
        "What's the weather in Madrid, and what time is it in Paris?",
        ("get_weather", "get_time"),
        ("29", "14:05|0?2:05"),
    ),
    Looped("Compute 12 * 12 and also 100 / 8.", ("calculate",) * 2, ("144", "12.5")),
    Looped(
        "Convert 5 km to miles, and tell me the time in London.",
        ("convert_units", "get_time"),
        ("3.1", "13:05|0?1:05"),
    ),
)


def offered(name: str, count: int) -> tuple[Tool, ...]:
    """So many tools with the named one among them, in the order of the list."""
    others = [each for each in TOOLS if each.name != name][: count - 1]
    return tuple(each for each in TOOLS if each.name == name or each in others)


def is_right(expected: dict[str, Any], given: dict[str, Any]) -> bool:
    """Whether the arguments mean the same."""
    return given.keys() == expected.keys() and all(
        _same(name, value, given[name]) for name, value in expected.items()
    )


def _same(name: str, expected: Any, given: Any) -> bool:
    match name:
        case "expression":
            try:
                return abs(value_of(expected) - value_of(str(given))) < 1e-6
            except ToolError:
                return False
        case "value":
            return float(given) == expected
        case "from_unit" | "to_unit":
            return unit(expected) == unit(str(given))
        case _:
            return str(given).split(",")[0].strip().lower() == expected.lower()


def unit(text: str) -> str:
    """One word for a unit."""
    word = text.strip().lower().lstrip("°").removesuffix("s")
    short = {"kilometer": "km", "kilometre": "km", "mi": "mile", "meter": "m", "metre": "m"}
    more = {"kilogram": "kg", "lb": "pound", "feet": "foot", "ft": "foot", "c": "celsiu"}
    word = (short | more | {"f": "fahrenheit"}).get(word, word)
    return "celsius" if word == "celsiu" else word


def value_of(expression: str) -> float:
    """The value of an arithmetic expression. Raises `ToolError` for any other."""
    try:
        return _value(ast.parse(expression.replace("^", "**"), mode="eval").body)
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError) as error:
        raise ToolError(f"not an arithmetic expression: {expression!r}") from error


def _value(node: ast.AST) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.BinOp():
            return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
        case ast.UnaryOp():
            return _OPERATORS[type(node.op)](_value(node.operand))
        case _:
            raise TypeError(node)
