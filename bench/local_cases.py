"""The prompts for the embedded models: some have known right calls, others need none."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

__all__ = ["BEFORE", "OWN", "PARTS", "Asked", "Cases", "Looped", "cases_from", "chosen"]


class Asked(Struct, frozen=True, forbid_unknown_fields=True):
    """A prompt that needs one call; without `arguments`, any are right."""

    prompt: str
    tool: str
    arguments: dict[str, Any] | None = None


class Looped(Struct, frozen=True, forbid_unknown_fields=True):
    """A task for the whole loop: the tools that it needs, and what the answer must contain.

    Each of `answer` is a regular expression; a tool that is needed twice is listed twice. In a
    `chained` task, a call needs the result of the one before it.
    """

    prompt: str
    tools: tuple[str, ...]
    answer: tuple[str, ...]
    chained: bool = False


class Cases(Struct, frozen=True, forbid_unknown_fields=True):
    """All cases. Each part may be left out."""

    one_tool: tuple[Asked, ...] = ()
    no_tool: tuple[str, ...] = ()
    tasks: tuple[Looped, ...] = ()


def cases_from(file: Path, tools: Collection[str]) -> Cases:
    """Reads cases from a JSON file. Raises `SystemExit` with the first error."""
    try:
        cases = msgspec.json.decode(file.read_bytes(), type=Cases)
    except (OSError, msgspec.MsgspecError) as error:
        raise SystemExit(f"{file} has no cases to ask: {error}") from error
    named = [each.tool for each in cases.one_tool]
    named += [name for task in cases.tasks for name in task.tools]
    if unknown := sorted(set(named) - set(tools)):
        raise SystemExit(f"{file} names the tool {unknown[0]!r}; there are: {', '.join(tools)}")
    return cases


def _weather(prompt: str, city: str) -> Asked:
    return Asked(prompt, "get_weather", {"city": city})


def _time(prompt: str, city: str) -> Asked:
    return Asked(prompt, "get_time", {"city": city})


def _sum(prompt: str, expression: str) -> Asked:
    return Asked(prompt, "calculate", {"expression": expression})


def _units(prompt: str, value: float, from_unit: str, to_unit: str) -> Asked:
    arguments = {"value": value, "from_unit": from_unit, "to_unit": to_unit}
    return Asked(prompt, "convert_units", arguments)


_ONE_TOOL = (
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

_NO_TOOL = (
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
    "Good night, talk to you soon.",
    "Write a thank-you note to a teacher.",
    "Is chess harder than checkers?",
    "What is the past tense of 'swim'?",
    "Name three primary colors.",
    "I am happy that the weekend is here.",
    "How do bees make honey?",
    "Who painted The Starry Night?",
    "Translate 'thank you' into Italian.",
    "What should I name my goldfish?",
    "How do thermometers work?",
    "Why is the sky blue?",
    "What is a prime number?",
    "I love rainy days.",
    "How long is a marathon, roughly?",
    "Who invented the metric system?",
    "Which is the hottest planet?",
    "What does 'time flies' mean?",
    "Suggest a title for a poem about snow.",
    "What did people use before email?",
)

_TASKS = (
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
    Looped("How is the weather in Tokyo and in Oslo?", ("get_weather",) * 2, ("24", "3")),
    Looped(
        "Tell me the time in Paris and the weather in Cairo.",
        ("get_time", "get_weather"),
        ("14:05|0?2:05", "33"),
    ),
    Looped(
        "What is 45 * 20, and what is the weather in London?",
        ("calculate", "get_weather"),
        ("900", "11"),
    ),
    Looped(
        "Convert 80 kg to pounds and 30 celsius to fahrenheit.",
        ("convert_units",) * 2,
        ("176", "86"),
    ),
    Looped(
        "What time is it in New York? And how much is 75 / 3?",
        ("get_time", "calculate"),
        ("0?8:05", "25"),
    ),
)


def _steps(prompt: str, tools: tuple[str, str], answer: str) -> Looped:
    return Looped(prompt, tools, (answer,), chained=True)


_LOOKED_UP, _WORKED_OUT = ("get_weather", "convert_units"), ("get_weather", "calculate")
_CONVERTED, _THEN_CONVERTED = ("convert_units", "calculate"), ("calculate", "convert_units")
_CHAINED = (
    _steps("What's the temperature in Oslo in Fahrenheit?", _LOOKED_UP, "37.4"),
    _steps("Look up the temperature in Cairo and multiply it by 3.", _WORKED_OUT, "99"),
    _steps("How warm is it in Madrid? Convert it to Fahrenheit.", _LOOKED_UP, "84.2"),
    _steps("How warm is it in Tokyo, and what is that times 2?", _WORKED_OUT, "48"),
    _steps("Convert 26 miles to km and then divide the result by 4.", _CONVERTED, "10.46"),
    _steps("Convert 100 fahrenheit to celsius and add 10 to it.", _CONVERTED, "47.78|47.8"),
    _steps("Convert 70 kg to pounds, then multiply that by 2.", _CONVERTED, "308.6"),
    _steps("Calculate 12 * 8 and convert the result from feet to meters.", _THEN_CONVERTED, "29.2"),
    _steps("What is 15 * 4 miles in km?", _THEN_CONVERTED, "96.5"),
    _steps("Add 18 and 7, then convert that many kg to pounds.", _THEN_CONVERTED, "55.1"),
)

OWN = Cases(_ONE_TOOL, _NO_TOOL, (*_TASKS, *_CHAINED))
"""The built-in cases. The prompts of the emulation profiles were tuned with them."""

PARTS = ("one_tool", "no_tool", "tasks", "steps")


def chosen(cases: Cases, parts: Collection[str]) -> Cases:
    """Only these of `PARTS`."""
    tasks = [task for task in cases.tasks if ("steps" if task.chained else "tasks") in parts]
    return Cases(
        cases.one_tool if "one_tool" in parts else (),
        cases.no_tool if "no_tool" in parts else (),
        tuple(tasks),
    )


BEFORE = {
    "qwen": {
        "one call, 1 offered: name/arguments": "20/19",
        "one call, 3 offered: name/arguments": "20/19",
        "one call, 8 offered: name/arguments": "20/20",
        "no call needed, 8 offered: none made": "30",
        "whole loop, calls: 1": "10",
        "whole loop, calls: 2": "9",
        "whole loop, two steps": "8",
    }
}
"""The figures of the method before programs (calls as JSON, with checks), for the same prompts."""
