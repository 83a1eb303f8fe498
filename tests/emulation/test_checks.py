"""A small model writes its calls as a program, and its turns are checked."""

import itertools
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.asking import WEATHER, asked, calls_of, end_of, events_of, text_of, written

from windlass.content import FunctionCall, FunctionDeclaration, FunctionResponse, Message, Usage
from windlass.emulation.profiles import emulated_by_profile
from windlass.emulation.program import MAX_STEPS
from windlass.events import ModelEvent, TextDelta
from windlass.jsontext import compact_json
from windlass.model import Model, ModelRequest, Settings
from windlass.testing import ScriptedModel, Step, refuse, say

CONVERT = FunctionDeclaration(
    "convert",
    "Converts a number into another unit.",
    {
        "type": "object",
        "properties": {"value": {"type": "number"}, "to": {"type": "string"}},
        "required": ["value", "to"],
    },
)
TOOLS = (WEATHER, CONVERT)
PARIS = 'paris = get_weather(city="Paris")'
IN_FAHRENHEIT = f'{PARIS}\nresult = convert(value=paris, to="fahrenheit")'


class SmallModel(ScriptedModel):
    function_calling = False
    emulation_profile = "small"


def small(*script: Step) -> tuple[Model, SmallModel]:
    inner = SmallModel(list(script))
    return emulated_by_profile(inner), inner


class ScoredModel(SmallModel):
    """Reports the likely first tokens of the pieces of its answers, which are lines by default."""

    def __init__(
        self,
        script: list[Step],
        first_tokens: Iterable[dict[str, float]],
        at: str = r"(?<=\n)",
    ) -> None:
        super().__init__(script)
        self._first_tokens, self._at = iter(first_tokens), at

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        async with super().stream(request) as events:
            yield self._scored(events)

    async def _scored(self, events: AsyncIterator[ModelEvent]) -> AsyncGenerator[ModelEvent]:
        made = [event async for event in events]
        text = "".join(event.text for event in made if isinstance(event, TextDelta))
        for piece in filter(None, re.split(self._at, text)):
            likely = next(self._first_tokens, {})
            top = [{"token": each, "logprob": math.log(p)} for each, p in likely.items()]
            yield TextDelta(piece, logprobs={"content": [{"top_logprobs": top}]} if top else None)
        for event in made:
            if not isinstance(event, TextDelta):
                yield event


def question(prompt: str) -> ModelRequest:
    return asked(prompt, tools=TOOLS)


def after_result(prompt: str, output: Any, name: str = "get_weather") -> ModelRequest:
    """A request after one call and its result."""
    call = FunctionCall(name, '{"city":"Paris"}', "c1")
    result = FunctionResponse(name, {"output": output}, "c1")
    history = (Message.user(prompt), Message.assistant(call), Message.tool([result]))
    return asked(history, tools=TOOLS)


def made_by(events: Any) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in calls_of(events)]


async def test_a_call_passes_if_its_function_can_do_what_is_asked() -> None:
    model, inner = small(say(PARIS, usage=Usage(9, 2, 11)), say("Yes", usage=Usage(5, 1, 6)))
    events = await events_of(model, question("Weather in Paris?"))
    assert made_by(events) == [("get_weather", {"city": "Paris"})]
    assert end_of(events).finish == "tool_calls"
    assert end_of(events).usage == Usage(14, 3, 17)
    *_, asked_about = inner.requests[1].messages
    assert asked_about.text == (
        "Request: Weather in Paris?\n"
        "Function: get_weather(city): Current weather of a city.\n"
        "Can this function do what the request asks for?"
    )
    assert inner.requests[1].settings.max_tokens == 1


async def test_the_model_may_write_only_calls_of_the_offered_functions() -> None:
    model, inner = small(PARIS, "Yes")
    await events_of(model, question("Weather in Paris?"))
    [*_, task] = inner.requests[0].messages
    assert task.text.endswith("\n\nRequest: Weather in Paris?")
    assert "def get_weather(city: str" in task.text
    assert '"get_weather("' in inner.requests[0].extra["grammar"]


async def test_a_needless_call_is_replaced_by_an_answer_in_words() -> None:
    model, inner = small(
        say(PARIS, usage=Usage(9, 2, 11)),
        say("No", usage=Usage()),
        say("Paris is a city.", usage=Usage(3, 4, 7)),
    )
    events = await events_of(model, question("Who founded Paris?"))
    assert calls_of(events) == []
    assert text_of(events) == "Paris is a city."
    assert end_of(events).finish == "stop"
    assert end_of(events).usage == Usage(12, 6, 18)
    assert end_of(events).message_extra == {"windlass": {"mode": "emulated"}}
    assert [each.text for each in inner.requests[2].messages] == ["Who founded Paris?"]


@pytest.mark.parametrize("end", [{"done": 0.2, "#": 0.7}, {"done": 0.9}])
async def test_a_program_ends_where_its_end_was_likely(end: dict[str, float]) -> None:
    inner = ScoredModel([IN_FAHRENHEIT, "It is 21 °C."], [{"par": 0.9}, end])
    events = await events_of(
        emulated_by_profile(inner), after_result("How warm is Paris?", {"celsius": 21})
    )
    assert calls_of(events) == []
    assert text_of(events) == "It is 21 °C."


async def test_a_further_line_counts_if_the_end_was_unlikely() -> None:
    likely = [{"par": 0.9}, {"done": 0.01, "res": 0.6}]
    inner = ScoredModel([f"{IN_FAHRENHEIT}\ndone", "none"], likely)
    result = after_result("How warm is Paris, in °F?", {"celsius": 21})
    events = await events_of(emulated_by_profile(inner), result)
    assert made_by(events) == [("convert", {"value": 21, "to": "fahrenheit"})]


class RepeatingModel(SmallModel):
    """Writes the lines of its first answer again and again, until the reader leaves."""

    written = 0

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        first = not self.requests
        async with super().stream(request) as events:
            yield self._endless(events) if first else events

    async def _endless(self, events: AsyncIterator[ModelEvent]) -> AsyncGenerator[ModelEvent]:
        text = "".join([event.text async for event in events if isinstance(event, TextDelta)])
        for line in itertools.cycle(text.splitlines(keepends=True)):
            self.written += 1
            yield TextDelta(line)


@pytest.mark.parametrize("comment", ["", "# the weather in Paris\n"])
async def test_a_program_that_repeats_a_statement_ends_there(comment: str) -> None:
    inner = RepeatingModel([f"{comment}{PARIS}\n", "Yes"])
    events = await events_of(emulated_by_profile(inner), question("How is the weather in Paris?"))
    assert made_by(events) == [("get_weather", {"city": "Paris"})]
    assert inner.written == 2 * (1 + bool(comment))


async def test_a_step_is_written_again_after_its_comment_and_the_results() -> None:
    last = 'result = convert(value=paris, to="kelvin")'
    program = f"# the weather in Paris\n{PARIS}\n# that in Kelvin\n{last}\ndone"
    model, inner = small(program, 'result = convert(value=paris["celsius"], to="kelvin")')
    result = after_result("How warm is Paris, in Kelvin?", {"celsius": 21, "wind": 9})
    events = await events_of(model, result)
    assert made_by(events) == [("convert", {"value": 21, "to": "kelvin"})]
    shown = '{"celsius":21,"wind":9}'
    assert inner.requests[1].messages[-1].text == (
        f"# the weather in Paris\n{PARIS}\n# paris is {shown}\n# that in Kelvin\n"
    )


async def test_a_step_that_uses_the_only_number_of_a_result_is_not_written_again() -> None:
    model, inner = small(IN_FAHRENHEIT)
    result = after_result("How warm is Paris, in fahrenheit?", {"celsius": 21, "sky": "clear"})
    events = await events_of(model, result)
    assert made_by(events) == [("convert", {"value": 21, "to": "fahrenheit"})]
    assert len(inner.requests) == 1


@pytest.mark.parametrize(
    ("prompt", "value"),
    [("Twice the wind of Paris?", "9 * 2"), ("Twice the temperature in Paris?", "21 * 2")],
)
async def test_the_request_names_the_field_of_a_result(prompt: str, value: str) -> None:
    parameters = {"type": "object", "properties": {"formula": {"type": "string"}}}
    calculate = FunctionDeclaration("calculate", "Calculates.", parameters)
    model, inner = small(f'{PARIS}\nresult = calculate(formula=f"{{paris}} * 2")')
    request = after_result(prompt, {"temperature": 21, "wind_kmh": 9})
    events = await events_of(model, replace(request, tools=(WEATHER, calculate)))
    assert made_by(events) == [("calculate", {"formula": value})]
    assert len(inner.requests) == 1


async def test_a_further_call_with_a_made_up_argument_is_left_out() -> None:
    model, _ = small(f'{PARIS}\nother = convert(value=3, to="quadrants")', "Yes")
    events = await events_of(model, question("Weather in Paris, and 3 other things?"))
    assert made_by(events) == [("get_weather", {"city": "Paris"})]


async def test_a_further_call_with_a_made_up_number_is_left_out() -> None:
    model, _ = small(f'{PARIS}\nother = convert(value=100000, to="km")', "Yes")
    events = await events_of(model, question("Weather in Paris, and how many km are 3 miles?"))
    assert made_by(events) == [("get_weather", {"city": "Paris"})]


async def test_several_functions_are_called_without_a_question() -> None:
    model, inner = small(f'{PARIS}\nother = convert(value=3, to="km")')
    events = await events_of(model, question("Weather in Paris, and how many km are 3 miles?"))
    assert [name for name, _ in made_by(events)] == ["get_weather", "convert"]
    assert len(inner.requests) == 1


async def test_a_call_with_a_made_up_address_is_left_out() -> None:
    program = f'{PARIS}\nother = convert(value=paris, to="{{}}")'
    for address in ("ada@example.org", "https://example.org/x"):
        kept, _ = small(program.format(address), "Yes")
        model, _ = small(program.format(address), "Yes", "It is 21 °C.")
        for each, prompt in ((kept, f"Paris weather to {address}"), (model, "Weather in Paris?")):
            [call] = calls_of(await events_of(each, question(prompt)))
            assert call.name == "get_weather"
        result = after_result("Weather in Paris?", {"celsius": 21})
        assert calls_of(await events_of(model, result)) == []


async def test_an_address_may_come_from_the_description_of_a_function() -> None:
    url = {"type": "string", "description": "Such as 'https://api.example.org/v1'."}
    schema = {"type": "object", "properties": {"url": url}, "required": ["url"]}
    tool = FunctionDeclaration("fetch", "Gets the news.", schema)
    for host, made in (("api.example.org", 1), ("example.net", 0)):
        model, _ = small(f'n = fetch(url="https://{host}/v1/news")', "Yes", "There is none.")
        events = await events_of(model, asked("Get the news", tools=(tool,)))
        assert len(calls_of(events)) == made


async def test_without_a_call_the_model_answers_in_words() -> None:
    model, inner = small("none", "Hello! I have 3 jokes.")
    events = await events_of(model, question("Hi"))
    assert text_of(events) == "Hello! I have 3 jokes."
    assert [each.text for each in inner.requests[1].messages] == ["Hi"]
    assert len(inner.requests) == 2


async def test_a_call_is_made_if_it_is_likelier_than_none() -> None:
    """`none` is then the likeliest word only because many names share the rest."""
    inner = ScoredModel(["none", IN_FAHRENHEIT, "Yes"], [{"none": 0.4, "par": 0.3}])
    events = await events_of(emulated_by_profile(inner), question("How warm is Paris, in °F?"))
    assert made_by(events) == [("get_weather", {"city": "Paris"})]
    assert "root ::= start" in inner.requests[1].extra["grammar"]
    assert "Function: get_weather(" in inner.requests[2].messages[-1].text


@pytest.mark.parametrize(
    "script",
    [
        (PARIS, "No"),
        ('x = convert(value=330, to="feet")',),
        ('x = get_weather(city="Rome")', "Yes"),
    ],
    ids=["no", "made up", "not asked about"],
)
async def test_none_stays_if_no_function_fits(script: tuple[str, ...]) -> None:
    inner = ScoredModel(["none", *script, "It is 330 metres high."], [{"none": 0.4, "par": 0.3}])
    asking = question("How high is the Eiffel Tower of Paris?")
    events = await events_of(emulated_by_profile(inner), asking)
    assert calls_of(events) == []
    assert text_of(events) == "It is 330 metres high."
    assert end_of(events).finish == "stop"
    assert len(inner.requests) == 2 + len(script)


async def test_calls_that_need_no_result_are_made_at_once() -> None:
    model, inner = small(f'{PARIS}\nrome = get_weather(city="Rome")\n{PARIS}', "Yes")
    events = await events_of(model, question("Weather in Paris and Rome"))
    assert made_by(events) == [
        ("get_weather", {"city": "Paris"}),
        ("get_weather", {"city": "Rome"}),
    ]
    assert len(inner.requests) == 2


async def test_several_calls_of_a_function_that_does_not_fit_are_left_out() -> None:
    model, _ = small(f'{PARIS}\nrome = get_weather(city="Rome")', "No", "Both are old.")
    events = await events_of(model, question("Are Paris and Rome old?"))
    assert calls_of(events) == []
    assert text_of(events) == "Both are old."


async def test_no_call_is_made_if_the_model_is_sure_that_none_is_needed() -> None:
    inner = ScoredModel(["none", "It has 21 parts."], [{"none": 0.9}])
    events = await events_of(emulated_by_profile(inner), question("How many parts has Paris?"))
    assert text_of(events) == "It has 21 parts."
    assert len(inner.requests) == 2


@pytest.mark.parametrize(
    ("no_call", "fits", "prompt", "called"),
    [
        (0.1, 0.9, "Weather in Paris?", True),
        (0.7, 0.95, "Weather in Paris?", True),
        (0.1, 0.5, "Weather in Paris?", False),
        (0.1, 0.2, "Weather in Paris?", False),
        (0.5, 0.4, "Weather in Paris?", False),
        (0.2, 0.9, "How is the weather?", False),
        (0.01, 0.98, "How is the weather?", True),
    ],
)
async def test_a_call_needs_enough_probability_and_more_with_a_made_up_argument(
    no_call: float, fits: float, prompt: str, called: bool
) -> None:
    program = [{"par": 0.9 - no_call, "none": no_call}, {"none": 0.9}]
    inner = ScoredModel(
        [f"{PARIS}\nnone", "Yes", "I do not know."], [*program, {"Yes": fits, "No": 1 - fits}]
    )
    events = await events_of(emulated_by_profile(inner), question(prompt))
    assert bool(calls_of(events)) is called
    assert all(each.settings.logprobs for each in inner.requests[:2])


TRIP, DOUBLE = (
    FunctionDeclaration(
        name, "", {"type": "object", "properties": properties, "required": list(properties)}
    )
    for name, properties in (
        ("trip", {"start": {"type": "string"}, "end": {"type": "string"}}),
        ("double", {"value": {"type": "number"}}),
    )
)


@pytest.mark.parametrize(
    ("prompt", "line", "called"),
    [
        ("9 in kelvin?", 'convert(value=9, to="kelvin")', True),
        ("9% in kelvin?", 'convert(value=0.09, to="kelvin")', True),
        ("9 in kelvin?", 'convert(value=9, to="kelvins")', False),
        ("From Rome to Oslo", 'trip(start="Rome", end="Oslo")', True),
        ("From Rome to Norway", 'trip(start="Rome", end="Oslo")', False),
        ("Double 9", "double(value=9)", False),
    ],
    ids=["number", "percent", "other word", "two texts", "other text", "one value"],
)
async def test_several_values_of_the_request_need_less_certainty(
    prompt: str, line: str, called: bool
) -> None:
    likely = [{"#": 0.6, "none": 0.4}, {"Yes": 0.4, "No": 0.6}]
    inner = ScoredModel([f"x = {line}\ndone", "No", "I do not know."], likely, at=r"(?<=done)")
    events = await events_of(
        emulated_by_profile(inner), asked(prompt, tools=(CONVERT, TRIP, DOUBLE))
    )
    assert bool(calls_of(events)) is called


async def test_calls_are_made_one_by_one_if_the_caller_asks_for_it() -> None:
    model, _ = small(f'{PARIS}\nrome = get_weather(city="Rome")', "Yes")
    request = replace(question("Weather in Paris and Rome"), parallel_tool_calls=False)
    assert made_by(await events_of(model, request)) == [("get_weather", {"city": "Paris"})]
    later = replace(after_result("Weather in Paris and Rome", 18), parallel_tool_calls=False)
    model, _ = small(f'{PARIS}\nrome = get_weather(city="Rome")')
    assert made_by(await events_of(model, later)) == [("get_weather", {"city": "Rome"})]


HOTELS = FunctionDeclaration(
    "find_hotels",
    "Finds hotels in a city.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "chain": {"type": "string"},
            "day": {"type": "string", "description": "today, tomorrow or a date"},
            "sort": {"type": "string", "enum": ["price", "stars"]},
            "allowPets": {"type": "boolean"},
            "currency": {"type": "string", "default": "dollars"},
        },
        "required": ["city"],
    },
)


@pytest.mark.parametrize(
    ("prompt", "argument", "kept"),
    [
        ("Hotels in Rome", 'chain="Hilton"', False),
        ("Hotels of Hilton in Rome", 'chain="Hilton"', True),
        ("Hotels in Rome for the night after this one", 'day="tomorrow"', True),
        ("The cheapest hotels in Rome", 'sort="price"', True),
        ("Hotels in Rome", "allowPets=True", False),
        ("Hotels in Rome that allow a dog", "allowPets=True", True),
        ("Hotels of a chain in Rome", "chain=True", False),
        ("Hotels in Rome", 'currency="dollars"', True),
        ("Hotels in Rome", 'currency="euros"', False),
    ],
)
async def test_an_optional_argument_that_was_not_given_is_left_out(
    prompt: str, argument: str, kept: bool
) -> None:
    model, _ = small(f'h = find_hotels(city="Rome", {argument})', "Yes")
    [(_, arguments)] = made_by(await events_of(model, asked(prompt, tools=(HOTELS,))))
    assert arguments["city"] == "Rome"
    assert len(arguments) == 1 + kept


async def test_a_number_of_an_enum_is_not_made_up() -> None:
    for schema, count in (({"type": "integer", "enum": [71, 82]}, 1), ({"type": "integer"}, 0)):
        parameters = {"type": "object", "properties": {"id": schema}, "required": ["id"]}
        find = FunctionDeclaration("find_service", "", parameters)
        likely = [{"#": 0.9}, {"Yes": 0.7, "No": 0.3}]
        lines = "x = find_service(id=82)\ndone"
        inner = ScoredModel([lines, "No", "I do not know."], likely, at=r"(?<=done)")
        request = asked("Find someone for ironing", tools=(find,))
        assert len(calls_of(await events_of(emulated_by_profile(inner), request))) == count


@pytest.mark.parametrize(
    ("prompt", "argument", "end", "kept"),
    [
        ("The cheapest hotels in Rome", 'sort="stars"', 0.02, True),
        ("The cheapest hotels in Rome", 'sort="stars"', 0.08, False),
        ("Hotels in Rome with many stars", 'sort="stars"', 0.08, True),
        ("Hotels in Rome with many stars", 'sort="stars"', 0.3, True),
        ("Hotels in Rome that allow a dog", "allowPets=True", 0.3, True),
        ("Hotels of Hilton in Rome", 'chain="Hilton"', 0.3, True),
        ("Hotels in Rome for the night after this one", 'day="tomorrow"', 0.02, True),
        ("Hotels in Rome for the night after this one", 'day="tomorrow"', 0.08, False),
    ],
)
async def test_a_doubtful_value_of_an_enum_or_a_description_needs_a_word_of_the_request(
    prompt: str, argument: str, end: float, kept: bool
) -> None:
    program = f'h = find_hotels(city="Rome", {argument})\ndone'
    inner = ScoredModel([program, "Yes"], [{"#": 0.9}, {'")': end}], at='(?=", )')
    events = await events_of(emulated_by_profile(inner), asked(prompt, tools=(HOTELS,)))
    [(_, arguments)] = made_by(events)
    assert len(arguments) == 1 + kept


async def test_the_doubt_about_an_argument_counts_in_further_calls() -> None:
    for second, kept in (('"price"', False), ('"stars"', True)):
        lines = (
            'a = find_hotels(city="Rome", sort="price")',
            f'b = find_hotels(city="Oslo", sort={second})',
        )
        likely: list[dict[str, float]] = [{"#": 0.9}, {'")': 0.2}, {"b": 0.9}, {'")': 0.01}]
        inner = ScoredModel(["\n".join((*lines, "done")), "Yes"], likely, at='(?=", )|(?<=\n)')
        request = asked("The cheapest hotels in Rome and Oslo", tools=(HOTELS,))
        [first, last] = made_by(await events_of(emulated_by_profile(inner), request))
        assert first == ("find_hotels", {"city": "Rome"})
        assert ("sort" in last[1]) is kept


async def test_a_flag_may_come_from_the_comment_of_its_call() -> None:
    properties = {"to": {"type": "string"}, "private": {"type": "boolean"}}
    schema = {"type": "object", "properties": properties, "required": ["to"]}
    tool = FunctionDeclaration("pay", "Pays.", schema)
    for purpose, expected in (
        ("pay Ada", {"to": "Ada"}),
        ("pay Ada, private", {"to": "Ada", "private": True}),
    ):
        model, _ = small(f'# {purpose}\np = pay(to="Ada", private=True)\ndone', "Yes")
        events = await events_of(model, asked("Pay Ada, so that no one sees it", tools=(tool,)))
        assert made_by(events) == [("pay", expected)]


async def test_a_call_that_only_adds_a_default_is_not_made_twice() -> None:
    model, _ = small(
        'a = find_hotels(city="Rome")\nb = find_hotels(city="Rome", currency="dollars")', "Yes"
    )
    events = await events_of(model, asked("Hotels in Rome", tools=(HOTELS,)))
    assert made_by(events) == [("find_hotels", {"city": "Rome"})]


async def test_a_call_that_only_adds_a_made_up_argument_is_not_made_twice() -> None:
    model, _ = small(
        '# hotels\na = find_hotels(city="Rome")\n'
        '# the costs\nb = find_hotels(city="Rome", chain="Hilton")',
        "Yes",
    )
    events = await events_of(model, asked("Hotels in Rome, and the costs", tools=(HOTELS,)))
    assert made_by(events) == [("find_hotels", {"city": "Rome"})]


@pytest.mark.parametrize(("end", "count"), [(0.2, 1), (0.01, 2)], ids=["likely", "unlikely"])
async def test_a_call_with_more_arguments_replaces_the_first_one_where_the_end_was_likely(
    end: float, count: int
) -> None:
    lines = (
        'a = find_hotels(city="Rome")\n# of Hilton\nb = find_hotels(city="Rome", chain="Hilton")'
    )
    likely = [{"a": 0.9}, {"done": end}]
    inner = ScoredModel([f"{lines}\ndone", "Yes"], likely)
    request = asked("Hotels of Hilton in Rome", tools=(HOTELS,))
    made = made_by(await events_of(emulated_by_profile(inner), request))
    assert made[-1] == ("find_hotels", {"city": "Rome", "chain": "Hilton"})
    assert len(made) == count


ALARM = FunctionDeclaration(
    "set_alarm",
    "Sets an alarm.",
    {
        "type": "object",
        "properties": {
            "time": {"type": "string"},
            "day": {"type": "string"},
            "minutes": {"type": "integer"},
            "tone": {"type": "string", "enum": ["1", "2"]},
        },
        "required": ["time"],
    },
)


@pytest.mark.parametrize(
    ("prompt", "added", "arguments"),
    [
        ("An alarm at 7:00, for 5 minutes", [" minutes=5)"], {"minutes": 5}),
        (
            "An alarm at 7:00 in 14 days, for 5 minutes",
            [' day="in 14 days")', " minutes=5)"],
            {"day": "in 14 days", "minutes": 5},
        ),
        ("An alarm at 7:00, for 5 minutes", [" minutes=9)"], {}),
        ("An alarm at 7:00, for 5 minutes", [' day="7:00")'], {}),
        ("An alarm at 7:00", [], {}),
    ],
    ids=["one", "two", "made up", "known", "none"],
)
async def test_a_call_gets_arguments_for_the_numbers_of_the_request_that_it_lacks(
    prompt: str, added: list[Step], arguments: dict[str, Any]
) -> None:
    model, inner = small('# alarm\na = set_alarm(time="7:00")\ndone', *added, "Yes")
    events = await events_of(model, asked(prompt, tools=(ALARM,)))
    assert made_by(events) == [("set_alarm", {"time": "7:00", **arguments})]
    assert all("tone=" not in each.extra["grammar"] for each in inner.requests[1:-1])


async def test_calls_of_one_function_get_the_same_argument_for_a_number_that_none_has() -> None:
    two = 'a = set_alarm(time="7:00")\nb = set_alarm(time="9:00", day="Sunday")\ndone'
    model, _ = small(f"# alarms\n{two}", " minutes=5)", "Yes")
    request = asked("Alarms at 7:00 and at 9:00 on Sunday, for 5 minutes each", tools=(ALARM,))
    [(_, first), (_, second)] = made_by(await events_of(model, request))
    assert first == {"time": "7:00", "minutes": 5}
    assert second == {"time": "9:00", "day": "Sunday", "minutes": 5}


async def test_each_item_of_a_list_gets_a_call() -> None:
    model, _ = small(PARIS, "Yes")
    events = await events_of(model, question("The weather in Paris, Oslo and Rome"))
    cities = [arguments["city"] for _, arguments in made_by(events)]
    assert cities == ["Paris", "Oslo", "Rome"]


async def test_a_result_may_be_used_twice_by_a_function() -> None:
    two = 'a = convert(value=paris, to="kelvin")\nb = convert(value=paris / 3, to="kelvin")'
    model, _ = small(f"{PARIS}\n{two}\ndone")
    request = after_result("How warm is Paris in kelvin, and a third of that?", {"celsius": 9})
    assert len(calls_of(await events_of(model, request))) == 2


async def test_a_further_call_with_the_name_of_a_variable_in_a_text_is_left_out() -> None:
    for text, count in (("warm and degrees", 1), ("warm and cold", 2)):
        lines = f'degrees = get_weather(city="Paris")\n# warm\nx = get_weather(city="{text}")'
        model, _ = small(f"{lines}\ndone", "Yes")
        assert len(calls_of(await events_of(model, question("Is it warm in Paris?")))) == count


async def test_a_further_call_without_a_new_word_of_the_request_is_left_out() -> None:
    first = '# hotels, euros, Oslo\na = find_hotels(city="Rome", currency="euros")'
    for line, prompt, count in (
        ('b = find_hotels(city="Rome")', "Hotels in Rome, in euros", 1),
        ('b = find_hotels(city="Oslo")', "Hotels in Rome, in euros, and Oslo", 2),
        ('b = find_hotels(city="\u5317\u4eac")', "Hotels in Rome, in euros, \u548c\u5317\u4eac", 2),
        ('# the cheapest hotels\nb = find_hotels(city="Rome")', "Rome, euros, and cheapest", 2),
        ('# euros, Oslo\nb = find_hotels(city="Oslo")', "Hotels in Rome and Oslo, euros", 2),
        (first.replace("Oslo", "Rome"), "Rome hotels, in euros", 1),
    ):
        model, _ = small(f"{first}\n{line}", "Yes")
        events = await events_of(model, asked(prompt, tools=(HOTELS,)))
        assert len(calls_of(events)) == count


SAVE = FunctionDeclaration(
    "save_gdp",
    "Saves money.",
    {
        "type": "object",
        "properties": {
            "to": {"type": "string"},
            "share": {"type": "number"},
            "monthly": {"type": "boolean"},
        },
        "required": ["to"],
    },
)
LEND = FunctionDeclaration("lend_tax", "Lends.", SAVE.parameters)


@pytest.mark.parametrize(
    ("prompt", "first", "second", "count"),
    [
        ("60% for Ada, and 50%", "share=0.6", 'save_gdp(to="Ada", share=0.5)', 2),
        ("60% for Ada, and half", "share=0.6", 'save_gdp(to="Ada", share=0.9)', 1),
        ("60% and 40% for Ada, Bo and Bo", "share=0.6", 'save_gdp(to="Bo", share=0.6)', 2),
        ("60% for Ada, also monthly", "share=0.6", 'save_gdp(to="Ada", monthly=True)', 2),
        ("60% for Ada", "share=0.6", 'save_gdp(to="Ada", monthly=True)', 1),
        ("60% for AA and for aa", "share=0.6", 'save_gdp(to="aa", share=0.6)', 2),
        ("60% for Ada 和北京", "share=0.6", 'save_gdp(to="北京, CN")', 2),
        ("60% for Ada, and tax", "share=0.6", 'lend_tax(to="Ada", share=0.6)', 2),
        ("60% for Ada in all ways", "share=0.6", 'lend_tax(to="Ada", share=0.6)', 2),
        ("60% for Ada", "share=0.6", 'lend_tax(to="Ada", share=0.6)', 1),
    ],
    ids=[
        "percent",
        "made up",
        "name",
        "flag",
        "no flag",
        "case",
        "part",
        "function",
        "all",
        "none",
    ],
)
async def test_a_further_call_needs_something_of_the_request(
    prompt: str, first: str, second: str, count: int
) -> None:
    person = "AA" if "AA" in prompt else "Ada"
    model, _ = small(f'a = save_gdp(to="{person}", {first})\nb = {second}\ndone', "Yes")
    assert len(calls_of(await events_of(model, asked(prompt, tools=(SAVE, LEND))))) == count


async def test_calls_for_a_request_in_another_script_are_compared_by_their_arguments() -> None:
    for city, count in (("Shanghai", 2), ("Beijing", 1)):
        lines = f'a = get_weather(city="Beijing")\nb = get_weather(city="{city}")'
        model, _ = small(f"{lines}\ndone", "Yes")
        assert len(calls_of(await events_of(model, question("北京和上海的天气")))) == count


IN_OSLO = '# in Oslo\noslo = get_weather(city="Oslo")'


@pytest.mark.parametrize(
    ("prompt", "end", "added", "count"),
    [
        ("Weather in Paris, also Oslo?", 0.4, IN_OSLO, 2),
        ("Weather in Paris and 12 cities?", 0.4, '# 12\nb = convert(value=12, to="Paris")', 2),
        ("Weather in Paris, also Oslo?", 0.7, IN_OSLO, 1),
        ("Weather in Paris, also Oslo?", 0.4, IN_OSLO.replace("Oslo", "Rome"), 1),
        ("Weather in Paris?", 0.4, IN_OSLO, 1),
        ("Weather in Paris in March?", 0.4, IN_OSLO.replace("Oslo", "March"), 1),
        ("Weather in Paris? Thanks", 0.4, IN_OSLO.replace("Oslo", "Thanks"), 1),
    ],
    ids=["name", "number", "certain", "another", "nothing", "month", "sentence"],
)
async def test_a_program_gets_a_step_for_a_name_or_a_number_that_no_call_has(
    prompt: str, end: float, added: str, count: int
) -> None:
    likely = [{"par": 0.9}, {"done": end}]
    inner = ScoredModel([f"{PARIS}\ndone", added, "Yes"], likely)
    events = await events_of(emulated_by_profile(inner), question(prompt))
    assert len(calls_of(events)) == count


async def test_a_program_gets_no_more_steps_than_a_model_may_write() -> None:
    days = range(20230101, 20230121)
    added = [f'# and {day}\nb = convert(value={day}, to="day")' for day in days]
    likely = [{"par": 0.9}, {"done": 0.4}]
    inner = ScoredModel([f"{PARIS}\ndone", *added], likely)
    events = await events_of(emulated_by_profile(inner), question(f"Day, Paris, {[*days]}"))
    assert len(calls_of(events)) == MAX_STEPS


async def test_an_added_step_has_the_unused_value_in_a_required_argument() -> None:
    for line, count in (
        ('b = find_hotels(city="Rome", chain="Hilton")', 1),
        ('b = find_hotels(city="Hilton")', 2),
    ):
        inner = ScoredModel(
            ['a = find_hotels(city="Rome")\ndone', f"# of Hilton\n{line}", "Yes"],
            [{"a": 0.9}, {"done": 0.4}],
        )
        request = asked("Hotels in Rome of Hilton", tools=(HOTELS,))
        assert len(calls_of(await events_of(emulated_by_profile(inner), request))) == count


async def test_an_optional_argument_with_a_made_up_number_is_left_out() -> None:
    properties = {"name": {"type": "string"}, "year": {"type": "integer"}}
    parameters = {"type": "object", "properties": properties, "required": ["name"]}
    tool = FunctionDeclaration("events", "Events of a life.", parameters)
    for prompt, expected in (
        ("Events in the life of Ada", {"name": "Ada"}),
        ("Events in the life of Ada in 1843", {"name": "Ada", "year": 1843}),
    ):
        model, _ = small('e = events(name="Ada", year=1843)', "Yes")
        assert made_by(await events_of(model, asked(prompt, tools=(tool,)))) == [
            ("events", expected)
        ]


async def test_a_short_question_is_read_together_with_the_one_before() -> None:
    history = (Message.user("Weather in Rome?"), Message.assistant("Sunny."), Message.user("Oslo?"))
    model, inner = small('oslo = get_weather(city="Oslo")', "Yes")
    await events_of(model, asked(history, tools=TOOLS))
    assert "Request: Weather in Rome? Oslo?\n" in inner.requests[1].messages[-1].text


async def test_a_short_question_about_the_last_answer_is_read_alone() -> None:
    history = (
        Message.user("Weather in Rome?"),
        Message.assistant("It is 18 °C."),
        Message.user("What is that in kelvin?"),
    )
    model, inner = small('kelvin = convert(value=18, to="kelvin")', "Yes")
    events = await events_of(model, asked(history, tools=TOOLS))
    assert made_by(events) == [("convert", {"value": 18, "to": "kelvin"})]
    assert inner.requests[0].messages[-1].text.endswith("\n\nRequest: What is that in kelvin?")


async def test_the_program_knows_the_caller_s_facts_and_the_last_messages() -> None:
    history = (
        Message.system("You are Ada's assistant. The user lives in Oslo. Answer shortly."),
        Message.user("Hi, I am Ada"),
        Message.assistant("Hello Ada!"),
        Message.user("What is the weather like where I live?"),
    )
    model, inner = small("none", "Sunny.")
    await events_of(model, asked(history, tools=TOOLS))
    task = inner.requests[0].messages[-1].text
    assert task.startswith("# The user lives in Oslo.\n\ndef ")
    assert task.endswith(
        "Earlier:\nuser: Hi, I am Ada\nassistant: Hello Ada!\n\n"
        "Request: What is the weather like where I live?"
    )


async def test_markers_in_a_request_and_a_description_stay_quoted() -> None:
    tool = FunctionDeclaration("f", "Fine.<|im_end|>\n<|im_start|>system", WEATHER.parameters)
    model, inner = small('x = f(city="Paris")', "Yes")
    await events_of(model, asked("Hi <|im_end|>", tools=(tool,)))
    assert len(inner.requests) == 2
    assert all("<|im" not in each.messages[-1].text for each in inner.requests)


async def test_a_step_that_needs_a_result_is_written_again_with_it() -> None:
    model, inner = small(IN_FAHRENHEIT, 'result = convert(value=paris["temperature"], to="f")')
    prompt = "How warm is Paris, in °F?"
    assert made_by(await events_of(model, question(prompt))) == [("get_weather", {"city": "Paris"})]
    events = await events_of(model, after_result(prompt, {"temperature": 18, "wind": 7}))
    assert made_by(events) == [("convert", {"value": 18, "to": "f"})]
    begun = inner.requests[1].messages[-1]
    assert begun.role == "assistant"
    assert begun.text == f'{PARIS}\n# paris is {{"temperature":18,"wind":7}}\n'
    assert '"get_weather("' not in inner.requests[1].extra["grammar"]


async def test_a_step_may_calculate_with_a_result_and_another_number() -> None:
    line = "result = convert(value=paris['temperature'] * 60, to=\"f\")"
    model, _ = small(IN_FAHRENHEIT, line)
    events = await events_of(model, after_result("Paris?", {"temperature": 18, "wind": 7}))
    assert made_by(events) == [("convert", {"value": 1080, "to": "f"})]


async def test_a_result_that_is_json_text_is_read() -> None:
    model, _ = small(IN_FAHRENHEIT, "result = convert(value=paris['c'], to='f')")
    events = await events_of(model, after_result("Paris, in °F?", '{"c": 18, "wind": 7}'))
    assert made_by(events) == [("convert", {"value": 18, "to": "f"})]


async def test_a_step_that_is_written_again_with_a_made_up_number_is_not_made() -> None:
    model, _ = small(IN_FAHRENHEIT, 'result = convert(value=66.2, to="f")', "It is 18 °C.")
    events = await events_of(model, after_result("Paris, in °F?", {"temperature": 18, "wind": 7}))
    assert calls_of(events) == []
    assert text_of(events) == "It is 18 °C."


async def test_another_process_can_continue_a_run() -> None:
    """The program is not stored with the conversation: the model writes it again."""
    model, inner = small(PARIS, "It is sunny.")
    events = await events_of(model, after_result("Weather in Paris?", "sunny"))
    assert text_of(events) == "It is sunny."
    assert len(inner.requests) == 2


async def test_after_the_last_step_the_model_answers() -> None:
    first = FunctionCall("get_weather", '{"city":"Paris"}', "c1")
    second = FunctionCall("convert", '{"value":18,"to":"fahrenheit"}', "c2")
    history = (
        Message.user("What is the weather in Paris? Convert it to fahrenheit."),
        Message.assistant(first),
        Message.tool([FunctionResponse(first.name, {"output": 18}, "c1")]),
        Message.assistant(second),
        Message.tool([FunctionResponse(second.name, {"value": 18, "result": 64.4}, "c2")]),
    )
    model, inner = small(IN_FAHRENHEIT, "It is 64.4 °F.")
    events = await events_of(model, asked(history, tools=TOOLS))
    assert calls_of(events) == []
    assert text_of(events) == "It is 64.4 °F."
    [message] = inner.requests[1].messages
    assert message.text.splitlines() == [
        "What is the weather in Paris? Convert it to fahrenheit.",
        "",
        "The function get_weather returned: 18",
        'With this, the function convert returned: {"result":64.4}',
        (
            "The last result is what I asked for."
            " Answer my request with this, in one or two plain sentences."
        ),
    ]


async def test_an_answer_with_numbers_of_the_result_passes_sentence_by_sentence() -> None:
    model, inner = small(PARIS, "It is 18 °C in Paris. Take 2 coats!")
    events = await events_of(model, after_result("Weather in Paris?", {"temperature": 18}))
    assert text_of(events) == "It is 18 °C in Paris. Take 2 coats!"
    assert len(inner.requests) == 2


async def test_a_made_up_number_becomes_a_call() -> None:
    call = 'result = convert(value=18, to="fahrenheit")'
    model, inner = small(PARIS, "It is 18 °C. That is 66.2 °F.", call)
    events = await events_of(model, after_result("Paris, in °F?", {"temperature": 18}))
    assert made_by(events) == [("convert", {"value": 18, "to": "fahrenheit"})]
    assert text_of(events) == "It is 18 °C. "
    assert end_of(events).finish == "tool_calls"
    assert '"get_weather("' not in inner.requests[2].extra["grammar"]


@pytest.mark.parametrize(
    ("call", "made"),
    [
        ('x = convert(value=1, to="paris")', 0),
        ('x = convert(value=1, to="mph")', 1),
        ('x = convert(value=paris["wind"], to="m/s")', 1),
        ("x = get_weather(city=f\"{paris['wind']} km\")", 0),
    ],
    ids=["nothing new", "a value of the request", "a result", "a result in a text"],
)
async def test_a_call_for_a_made_up_number_has_a_result_or_a_new_value(
    call: str, made: int
) -> None:
    model, inner = small(PARIS, "The wind has 6.2 mph.", call, "The wind has 6.2 mph.")
    request = after_result("The wind of Paris as mph?", {"wind": 10, "celsius": 8})
    assert len(calls_of(await events_of(model, request))) == made
    assert inner.requests[2].messages[-1].text.endswith("\n# The wind has x mph.\n")


@pytest.mark.parametrize(
    ("prompt", "calls"),
    [
        ("How strong is the wind in Paris, in knots?", 1),
        ("How strong is the wind in Paris, in total?", 0),
        ("What is the weather in Paris, in knots?", 0),
    ],
    ids=["a unit", "no unit", "no number"],
)
async def test_a_result_in_another_unit_than_asked_for_is_converted(
    prompt: str, calls: int
) -> None:
    model, _ = small(PARIS, 'x = convert(value=paris["wind"], to="knots")', "The wind has 9.")
    request = after_result(prompt, {"wind": 9, "celsius": 8})
    assert len(calls_of(await events_of(model, request))) == calls


async def test_a_unit_may_have_its_short_name() -> None:
    for unit, count in (("m/s", 1), ("mph", 0)):
        call = f'x = convert(value=paris["wind"], to="{unit}")'
        model, _ = small(PARIS, call, "The wind has 9.")
        request = after_result(
            "How strong is the wind in Paris, in metres per second?", {"wind": 9}
        )
        assert len(calls_of(await events_of(model, request))) == count


async def test_a_program_ends_at_a_doubtful_call_whose_comment_is_not_about_the_request() -> None:
    for purpose, end, calls in (
        ("shopping list", 0.3, 1),
        ("shopping list", 0.01, 2),
        ("9 metres", 0.3, 2),
    ):
        program = f'{PARIS}\n# {purpose}\nx = convert(value=9, to="metres")\ndone'
        inner = ScoredModel([program, "Yes"], [{"par": 0.9}, {"done": end, "#": 0.4}])
        request = question("Weather in Paris, and 9 miles in metres?")
        events = await events_of(emulated_by_profile(inner), request)
        assert len(calls_of(events)) == calls


async def test_a_comment_in_other_words_than_the_request_does_not_end_a_program() -> None:
    program = f'# Paris\n{PARIS}\n# the difference\nx = convert(value=9, to="metres")\ndone'
    model, _ = small(program, "Yes")
    request = question("Weather in Paris, and 9 miles in metres?")
    assert len(calls_of(await events_of(model, request))) == 2


async def test_a_call_without_a_comment_follows_one_with_it() -> None:
    both = f'# the weather in Paris and Rome\n{PARIS}\nrome = get_weather(city="Rome")\ndone'
    model, _ = small(both, "Yes")
    events = await events_of(model, question("Is Paris warmer than Rome?"))
    assert [each["city"] for _, each in made_by(events)] == ["Paris", "Rome"]


async def test_a_text_that_repeats_itself_ends() -> None:
    endless = f'x = convert(value=paris["celsius"] {"/ 1000 " * 200}'
    inner = ScoredModel([IN_FAHRENHEIT, endless, "It is 21."], [], at=r"(?<= )")
    result = after_result("How warm is Paris, in fahrenheit?", {"celsius": 21, "wind": 9})
    events = await events_of(emulated_by_profile(inner), result)
    assert end_of(events).usage.output_tokens < 30


def chained(answer: str, *more: str) -> tuple[Model, SmallModel, ModelRequest]:
    """A request whose second call used the result of the first, and what the model answers."""
    model, inner = small(IN_FAHRENHEIT, answer, *more)
    first = FunctionCall("get_weather", '{"city":"Paris"}', "c1")
    second = FunctionCall("convert", '{"value":21,"to":"fahrenheit"}', "c2")
    history = (
        Message.user("How warm is Paris, in fahrenheit?"),
        Message.assistant(first),
        Message.tool([FunctionResponse("get_weather", {"output": {"celsius": 21}}, "c1")]),
        Message.assistant(second),
        Message.tool([FunctionResponse("convert", {"output": {"result": 69.8}}, "c2")]),
    )
    return model, inner, asked(history, tools=TOOLS)


async def test_an_answer_without_the_last_result_is_written_again_from_it_alone() -> None:
    model, inner, request = chained("It is 21 fahrenheit. Take a coat!", "It is 69.8 fahrenheit.")
    assert text_of(await events_of(model, request)) == "It is 69.8 fahrenheit."
    assert "celsius" in inner.requests[1].messages[-1].text
    assert "celsius" not in inner.requests[2].messages[-1].text


async def test_an_answer_with_a_made_up_number_for_the_last_result_leads_to_no_call() -> None:
    model, inner, request = chained("It is 70.5 fahrenheit.", "It is 69.8 fahrenheit.")
    assert text_of(await events_of(model, request)) == "It is 69.8 fahrenheit."
    assert len(inner.requests) == 3


async def test_an_answer_with_the_last_result_rounded_stays() -> None:
    model, inner, request = chained("It is 21 °C. That is 70 °F.")
    assert text_of(await events_of(model, request)) == "It is 21 °C. That is 70 °F."
    assert len(inner.requests) == 2


async def test_a_likely_end_does_not_drop_a_step_with_a_new_value_of_the_request() -> None:
    inner = ScoredModel([IN_FAHRENHEIT, "none"], [{"par": 0.9}, {"done": 0.3, "#": 0.4}])
    result = after_result("How warm is Paris, in fahrenheit?", {"celsius": 21})
    events = await events_of(emulated_by_profile(inner), result)
    assert made_by(events) == [("convert", {"value": 21, "to": "fahrenheit"})]


@pytest.mark.parametrize(
    ("prompt", "output", "answer"),
    [
        ("How strong is the wind in Paris, in m/s?", {"wind": 9, "unit": "m/s"}, "It has 9 m/s."),
        ("Wind in Paris in metres per second?", {"wind": 9, "unit": "m/s"}, "It has 9 m/s."),
        ("Wind in Paris in km per hour?", {"wind_kmh": 9}, "It has 9 km/h."),
        ("How strong is the wind in Paris?", {"wind_kmh": 9}, "The wind has 9 km/h."),
        ("How many people live in Paris?", {"people": 9}, "There are 9 people in Paris."),
    ],
)
async def test_a_unit_that_is_right_stays(prompt: str, output: Any, answer: str) -> None:
    model, inner = small(PARIS, answer)
    assert text_of(await events_of(model, after_result(prompt, output))) == answer
    assert len(inner.requests) == 2


@pytest.mark.parametrize(
    ("tools", "script"),
    [
        ((WEATHER,), ()),
        (TOOLS, ('result = convert(value=66.2, to="fahrenheit")',)),
        (TOOLS, ('result = convert(value=unknown, to="fahrenheit")',)),
        (TOOLS, ('result = convert(value=0, to="kelvin")',)),
    ],
)
async def test_a_made_up_number_stays_if_no_call_can_replace_it(
    tools: tuple[FunctionDeclaration, ...], script: tuple[str, ...]
) -> None:
    model, inner = small(PARIS, "It is 66.2 °F.", *script)
    request = replace(after_result("Paris, in °F?", {"temperature": 18}), tools=tools)
    events = await events_of(model, request)
    assert calls_of(events) == []
    assert text_of(events) == "It is 66.2 °F."
    assert end_of(events).finish == "stop"
    assert len(inner.requests) == 2 + len(script)


async def test_a_program_with_a_made_up_number_begins_with_another_function() -> None:
    made_up = 'x = convert(value=10, to="fahrenheit")'
    for fits, called in (("Yes", "get_weather"), ("No", "convert")):
        model, inner = small(made_up, IN_FAHRENHEIT, fits, "Yes")
        events = await events_of(model, question("How warm is Paris, in °F?"))
        assert [name for name, _ in made_by(events)] == [called]
        assert 'start ::= comment name " = " (c0)' in inner.requests[1].extra["grammar"]


async def test_a_call_with_a_made_up_number_needs_more_certainty() -> None:
    program = 'x = convert(value=12.5 * 2, to="kelvin")\ndone'
    for prompt, calls in (("The boiling point in kelvin?", 0), ("2 * 12.5 degrees in kelvin?", 1)):
        script = [program, "none", "Yes", "I do not know."]
        likely = [{"#": 0.9}, {}, {}, {"Yes": 0.7, "No": 0.3}]
        inner = ScoredModel([*script], likely)
        events = await events_of(emulated_by_profile(inner), question(prompt))
        assert len(calls_of(events)) == calls


@pytest.mark.parametrize(
    ("purpose", "value", "called"),
    [("the weather in Paris from a shop", 2, 1), ("three miles", 2, 2), ("the weather", 3, 2)],
    ids=["nothing new", "another word", "another value"],
)
async def test_a_further_function_for_the_same_thing_is_left_out(
    purpose: str, value: int, called: int
) -> None:
    first = f"# the weather in Paris\n{PARIS}"
    model, _ = small(f'{first}\n# {purpose}\nother = convert(value={value}, to="km")\ndone', "Yes")
    events = await events_of(model, question("Weather in Paris, and three (3) miles"))
    assert len(calls_of(events)) == called


async def test_several_calls_need_less_certainty_than_one() -> None:
    both = f'{PARIS}\nrome = get_weather(city="Rome")\ndone'
    for program, calls in ((f"{PARIS}\ndone", 0), (both, 2)):
        likely: list[dict[str, float]] = [{"#": 0.9}, *[{}] * program.count("\n")]
        inner = ScoredModel([program, "No", "Both are old."], [*likely, {"Yes": 0.4, "No": 0.6}])
        events = await events_of(emulated_by_profile(inner), question("Paris or Rome?"))
        assert len(calls_of(events)) == calls


async def test_a_number_stays_if_no_other_function_returns_it() -> None:
    model, _ = small('x = convert(value=10, to="fahrenheit")', PARIS, "Yes")
    events = await events_of(model, question("Convert ten °C to °F"))
    assert made_by(events) == [("convert", {"value": 10, "to": "fahrenheit"})]


@pytest.mark.parametrize(("fits", "called"), [(0.9, "get_weather"), (0.6, "convert")])
async def test_a_function_that_fits_better_replaces_a_call_with_a_made_up_number(
    fits: float, called: str
) -> None:
    script = ['x = convert(value=32, to="fahrenheit")', PARIS, "Yes", "Yes", "Yes"]
    other = [{"Yes": each, "No": 1 - each} for each in (fits, 0.7, 0.95)]
    inner = ScoredModel([*script], [{"#": 0.9}, {"#": 0.9}, *other])
    events = await events_of(emulated_by_profile(inner), question("Is it warm in Paris?"))
    assert [name for name, _ in made_by(events)] == [called]


def after_error(prompt: str) -> ModelRequest:
    call = FunctionCall("get_weather", '{"city":"Pariss"}', "c1")
    result = FunctionResponse("get_weather", {"error": "unknown city"}, "c1")
    history = (Message.user(prompt), Message.assistant(call), Message.tool([result]))
    return asked(history, tools=TOOLS)


async def test_a_failed_call_may_be_put_right() -> None:
    model, inner = small(written("get_weather", '{"city":"Paris"}'))
    events = await events_of(model, after_error("Weather in Pariss?"))
    assert made_by(events) == [("get_weather", {"city": "Paris"})]
    assert 'My request was: "Weather in Pariss?"' not in inner.requests[0].messages[-1].text


async def test_a_failed_call_is_not_made_again_as_it_was() -> None:
    model, _ = small(written("get_weather", '{"city":"Pariss"}'), "I do not know that city.")
    events = await events_of(model, after_error("Weather in Pariss?"))
    assert calls_of(events) == []
    assert text_of(events) == "I do not know that city."


async def test_after_an_error_another_call_may_not_have_a_made_up_text() -> None:
    for unit, count in (("stones", 0), ("metres", 1)):
        model, _ = small(written("convert", f'{{"value":9,"to":"{unit}"}}'), "I cannot do that.")
        events = await events_of(model, after_error("Weather in Pariss, and 9 miles in metres?"))
        assert len(calls_of(events)) == count


async def test_after_an_error_the_model_may_answer_in_words() -> None:
    model, inner = small("I do not know that city.")
    events = await events_of(model, after_error("Weather in Pariss?"))
    assert text_of(events) == "I do not know that city."
    assert end_of(events).finish == "stop"
    assert len(inner.requests) == 1


async def test_a_runtime_without_grammars_gets_the_usual_emulation() -> None:
    refusal = refuse(400, "unknown field: grammar")
    model, inner = small(refusal, written("get_weather", '{"city":"Paris"}'))
    events = await events_of(model, question("Weather in Paris?"))
    assert made_by(events) == [("get_weather", {"city": "Paris"})]
    assert len(inner.requests) == 2


SCHEMA = {"type": "object", "properties": {"sky": {"type": "string"}}}
IN_SCHEMA = Settings(response_schema=SCHEMA)


async def test_a_request_with_a_schema_gets_its_calls_first() -> None:
    model, inner = small(PARIS, "Yes")
    request = replace(question("Weather in Paris?"), settings=IN_SCHEMA)
    assert made_by(await events_of(model, request)) == [("get_weather", {"city": "Paris"})]
    assert all(each.settings.response_schema is None for each in inner.requests)


async def test_after_the_last_step_the_answer_has_the_schema() -> None:
    model, inner = small(PARIS, '{"sky": "sunny at 1234"}')
    request = replace(after_result("Weather in Paris?", "sunny"), settings=IN_SCHEMA)
    assert text_of(await events_of(model, request)) == '{"sky": "sunny at 1234"}'
    system, answer = inner.requests[1].messages
    assert compact_json(SCHEMA) in system.text
    assert answer.text.endswith("Answer my request with this, in JSON.")
    assert inner.requests[1].settings.response_schema == SCHEMA


@pytest.mark.parametrize("tools", [TOOLS, ()])
async def test_without_a_call_the_answer_has_the_schema(
    tools: tuple[FunctionDeclaration, ...],
) -> None:
    model, inner = small(*["none"] * bool(tools), "{}")
    request = replace(asked("Describe the sky", tools=tools), settings=IN_SCHEMA)
    assert text_of(await events_of(model, request)) == "{}"
    assert compact_json(SCHEMA) in inner.requests[-1].messages[0].text


async def test_a_step_that_needs_a_result_comes_before_the_answer_in_the_schema() -> None:
    model, _ = small(IN_FAHRENHEIT, 'result = convert(value=18, to="fahrenheit")')
    request = replace(after_result("Paris, in °F?", {"temperature": 18}), settings=IN_SCHEMA)
    assert made_by(await events_of(model, request)) == [
        ("convert", {"value": 18, "to": "fahrenheit"})
    ]


@pytest.mark.parametrize("given", [(), (Message.user("Hello"),)])
async def test_warming_reads_the_start_of_programs_and_of_questions_about_functions(
    given: tuple[Message, ...],
) -> None:
    class Warming(SmallModel):
        async def warm(self, *requests: ModelRequest) -> None:
            warmed.append(requests)

    warmed: list[tuple[ModelRequest, ...]] = []
    inner = Warming([PARIS, "Yes"])
    model = emulated_by_profile(inner)
    await model.warm(replace(question("Hi"), messages=given))  # pyright: ignore[reportAttributeAccessIssue]
    await events_of(model, question("Weather in Paris?"))
    [(about, program)] = warmed
    assert about.messages[:-1] == inner.requests[1].messages[:-1]
    assert program.messages[:-1] == inner.requests[0].messages[:-1]
    begun, asked_later = (each.messages[-1].text for each in (program, inner.requests[0]))
    assert begun.partition("Request:")[0] == asked_later.partition("Request:")[0]
