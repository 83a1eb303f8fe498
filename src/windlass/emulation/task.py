"""`Task`: a request to a small model, and what it says about the calls of a program. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec

from windlass.content import FunctionCall, FunctionDeclaration, Message, Schema
from windlass.emulation.lists import one_for_each
from windlass.emulation.numbers import Numbers
from windlass.emulation.planning import Asked
from windlass.emulation.program import (
    Made,
    OfferedFunction,
    Program,
    ProgramStep,
    Unresolved,
    is_number,
    number_in,
    numbers_of,
    offered_functions,
)
from windlass.emulation.prompt import quoted
from windlass.emulation.relevance import (
    is_made_up,
    is_month,
    shared_words,
    split_name,
    words_of,
)
from windlass.emulation.units import names_unit, wanted_units
from windlass.jsontext import compact_json
from windlass.model import ModelRequest

_AFTER_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.\w+|(?<=://)[^\s\"'/?#]+")
"""An e-mail address, or the host of a URL."""
_REFERS = re.compile(r"\b(it|that|them|these|this|those)\b", re.IGNORECASE)
_BEHAVIOUR = re.compile(
    r"\b(you|your|answer|reply|respond|write|speak|sentences?|polite|friendly)\b", re.IGNORECASE
)
"""Words of a system message that tell the assistant how to behave."""
_NAME = re.compile(r"(?<=[^\s.!?:\"'“*-]\s)[A-Z][^\W\d_]{2,}\b(?!')")
"""A name in the middle of a sentence."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WORD = re.compile(r"\w+")
_WORDS_APART = re.compile(r"\w+\s+\w+\s+\w+")
"""Three words with spaces between them, which Chinese and Japanese do not have."""
_SEVERAL = re.compile(r"\b(?:all|both|each|every)\b", re.IGNORECASE)
_MAX_REQUEST_CHARS = 1000
_MAX_FACTS_CHARS = 600
_MAX_EARLIER = 4
_MAX_EARLIER_CHARS = 300
_SHORT_REQUEST_WORDS = 6
_DOUBT = 0.05
"""How likely the end of a call may be, in place of a value of an enum that is made up."""
_END_LIKELY = 0.05
"""How likely the end of a program must be, in place of a further call that adds no value."""


class Task:
    """A request: its question, what the question may refer to, and the calls made for it."""

    def __init__(self, request: ModelRequest, tools: Sequence[FunctionDeclaration]) -> None:
        self.request = request
        self.functions = offered_functions(tools)
        self.chained = False
        """Whether the last step of the program needed the result of another."""
        self.question = _question(request)
        self.asked = Asked(self.functions, self.question, _facts(request), _earlier(request))

    @property
    def known(self) -> Numbers:
        """The numbers of the conversation and of all results."""
        return _numbers(self.request, with_results=True)

    @property
    def request_numbers(self) -> Numbers:
        """The numbers that were known when the request was made."""
        known = _numbers(self.request, with_results=False)
        known.add(self.asked.facts)
        return known

    def made(self) -> list[Made]:
        """The calls since the last question that succeeded, in their order."""
        calls: dict[str, FunctionCall] = {}
        made: list[Made] = []
        for message in _since_question(self.request):
            calls |= {call.id: call for call in _calls_in(message)}
            made += [
                Made(calls[each.id], _value(each.output))
                for each in message.responses
                if each.id in calls and each.error is None
            ]
        return made

    def failed(self) -> set[str]:
        """The functions whose last results are errors."""
        last = self.request.messages[-1]
        return {each.name for each in last.responses if each.error is not None}

    def final_numbers(self) -> Numbers | None:
        """The numbers of the last result of a chain, one of which the answer must have."""
        if not self.chained or not (made := self.made()):
            return None
        numbers = Numbers()
        numbers.add(made[-1].answer)
        return None if numbers.are_none else numbers

    @property
    def said(self) -> str:
        """The text of the conversation."""
        return " ".join((*(each.text for each in self.request.messages), self.question))

    def keeps(self, step: ProgramStep, name: str, value: object) -> bool:
        """Whether a call has the argument: it is required, or comes from the conversation."""
        return name in step.function.required or self.explains(step, name, value)

    def explains(self, step: ProgramStep, name: str, value: object) -> bool:
        """Whether an optional argument comes from the conversation. A small model fills in all
        parameters that it sees.

        A flag or a value of an enum may come from the comment of the call: the model says there
        what the request means. A value that only the enum or the description names may translate
        a word of the request, so the model must be certain of it.
        """
        schema = step.function.schema(name)
        if value == schema.get("default"):
            return True
        said = f"{self.said} {step.purpose}"
        if isinstance(value, bool):
            is_flag = schema.get("type") not in ("string", "integer", "number")
            return is_flag and bool(shared_words(words_of(name), said))
        certain = step.doubts.get(name, 0.0) < _DOUBT
        if isinstance(value, str) and schema.get("enum"):
            return certain or bool(shared_words(value, said))
        described = str(schema.get("description") or "").lower()
        named = certain and isinstance(value, str) and value.lower() in described
        return self.request_numbers.explain(value) and (named or not is_made_up(value, self.said))

    def without_inventions(self, program: Program) -> Program:
        """The program without calls that the request cannot ask for.

        These are calls with a made-up address, and further ones that add nothing, have the name of
        a variable in a text, or another made-up text or number that is required. The program ends
        where its end was likely, unless the next call has a value of the request that no call
        before it has, and a comment with a word of the request. If that call is an earlier one with
        more arguments, it replaces it.
        """
        kept: list[ProgramStep] = []
        for step in program.steps:
            if kept and step.end >= _END_LIKELY:
                if not self._is_asked_for(step, kept):
                    return Program(kept)
                kept = [each for each in kept if not self._completes(step, each)]
            is_doubtful = (
                self.has_made_up(step)
                or self.has_unknown_number(step)
                or self._names_variable(step, program.steps)
                or not self._adds(step, kept)
            )
            if self.has_addresses(step.line) and not (kept and is_doubtful):
                kept.append(step)
        return Program(kept, program.end)

    def with_calls_for_lists(self, program: Program) -> Program:
        """The program with a call for each item of a list in the question: "Python and Java"."""
        steps = program.steps
        question = self.question.replace('\\"', '"')  # as the user wrote it
        longer = [each for step in steps for each in one_for_each(step, question, steps)]
        return Program(longer, program.end)

    def _is_asked_for(self, step: ProgramStep, others: Sequence[ProgramStep]) -> bool:
        about = not is_made_up(step.purpose, f"{self.asked.earlier} {self.question}")
        return about and self.has_new_value(step, others)

    def named_fields(self, step: ProgramStep, values: dict[str, Any]) -> dict[str, Any]:
        """The values, with only the field of a result that the step's comment or the request
        names, if it is one number: "how windy is it" means `wind_kmh`."""
        return {name: self._named_field(step.purpose, value) for name, value in values.items()}

    def _named_field(self, purpose: str, value: Any) -> Any:
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            for said in (purpose, self.question):
                named = {
                    key: each
                    for key, each in fields.items()
                    if is_number(each) and shared_words(words_of(key), said)
                }
                if len(named) == 1:
                    return named
        return cast("Any", value)

    def has_new_value(self, step: ProgramStep, others: Sequence[ProgramStep]) -> bool:
        """Whether the step has a value of the conversation that no other step has."""
        return bool(self._values(step).difference(*map(self._values, others)))

    def unused(self, steps: Sequence[ProgramStep]) -> set[str]:
        """The numbers and names of the question that no step has."""
        return self._not_in(
            each for step in steps for each in (*step.literals, step.function.tool.name)
        )

    def uses(self, step: ProgramStep, values: set[str]) -> bool:
        """Whether a required argument of the step has one of these values of the question."""
        return bool(values - self._not_in(step.required_literals))

    def may_add(self, longer: ProgramStep, steps: Sequence[ProgramStep]) -> bool:
        """Whether the argument that this step has and the first one has not comes from the
        conversation, and has a number of the question that no step has."""
        added = longer.arguments.keys() - steps[0].arguments.keys()
        if not added:
            return False
        [name] = added
        try:
            value = longer.call_arguments({}).get(name)
        except Unresolved:
            return False
        has_new = self.unused_numbers([longer, *steps]) < self.unused_numbers(steps)
        return has_new and self.explains(longer, name, value)

    def unused_numbers(self, steps: Sequence[ProgramStep]) -> set[float]:
        """The numbers of the question that no step has."""
        return self._numbers_not_in(" ".join(each for step in steps for each in step.literals))

    def _numbers_not_in(self, text: str) -> set[float]:
        numbers = Numbers()
        numbers.add(text)
        return set(numbers.unknown(self.question))

    def _not_in(self, texts: Iterable[str]) -> set[str]:
        """The numbers and names of the question that are in none of the texts."""
        text = " ".join(texts)
        names = {each for each in _NAME.findall(self.question) if not is_month(each)}
        return set(map(str, self._numbers_not_in(text))) | {
            each for each in names if is_made_up(each, split_name(text))
        }

    def _adds(self, step: ProgramStep, others: Sequence[ProgramStep]) -> bool:
        """Whether a further call uses a result, or has something of the request that another call
        has not: in its values, or in its comment and the function's name.

        A model that knows two shops asks both, although the request names one. The words of a
        request in another script cannot be compared with values such as "Beijing, China".
        """
        if not self.question.isascii() and not _WORDS_APART.search(self.question):
            return bool(step.needs) or not any(self._is_same(step, each) for each in others)
        values, words = self._values(step), self._words(step)
        return bool(step.needs) or not any(
            self._is_same(step, each)
            or (
                values <= self._values(each)
                and words <= self._words(each)
                and not self._differs(step, each)
            )
            for each in others
        )

    def _is_same(self, step: ProgramStep, other: ProgramStep) -> bool:
        """Whether both are the same call, perhaps with a parameter's default in one of them."""
        return step.function is other.function and self._kept(step) == self._kept(other)

    def _names_variable(self, step: ProgramStep, steps: Sequence[ProgramStep]) -> bool:
        """Whether a text contains, among other words, the name of another step's variable, which
        the conversation does not contain: "warm and time"."""
        variables = {each.variable for each in steps if each is not step}
        texts = (_WORD.findall(each) for each in step.literals)
        words = {word for text in texts if len(text) > 1 for word in text}
        return bool((words & variables) - set(_WORD.findall(self.said.lower())))

    def _completes(self, step: ProgramStep, other: ProgramStep) -> bool:
        """Whether the step is the other one with more arguments."""
        if step.function is not other.function or step.needs or other.needs:
            return False
        more, less = self._kept(step), self._kept(other)
        return len(more) > len(less) and all(
            name in more and more[name] == value for name, value in less.items()
        )

    def _kept(self, step: ProgramStep) -> dict[str, Any]:
        """The arguments that the call of the step has, without defaults."""
        return {
            name: value
            for name, value in given_arguments(step).items()
            if self.keeps(step, name, value)
        }

    def _differs(self, step: ProgramStep, other: ProgramStep) -> bool:
        """Whether the request has an argument in which two calls of one function differ, or asks
        for calls of several functions ("on both clouds")."""
        if step.function is not other.function:
            return _SEVERAL.search(self.question) is not None
        arguments = given_arguments(other)
        return any(
            self._is_given(name, value)
            for name, value in given_arguments(step).items()
            if value != arguments.get(name)
        )

    def _is_given(self, name: str, value: object) -> bool:
        """Whether the conversation has the value in these words, or names the flag."""
        if isinstance(value, bool):
            return bool(shared_words(words_of(name), self.said))
        if isinstance(value, str):
            return value.lower() in self.said.lower()
        return is_number(value) and self.request_numbers.explain(value)

    def _values(self, step: ProgramStep) -> set[str]:
        """The values of a step that the conversation contains, and their words."""
        said, values = self.said.lower(), {each.lower() for each in step.literals}
        parts = values.union(*(each.split(", ") for each in values))
        return shared_words(" ".join(values), said) | {each for each in parts if each in said}

    def _words(self, step: ProgramStep) -> set[str]:
        """The words of the conversation that say what a step is for."""
        return shared_words(f"{step.purpose} {split_name(step.function.tool.name)}", self.said)

    def has_made_up(self, step: ProgramStep) -> bool:
        """Whether a required argument of the step comes neither from the conversation nor from
        another step."""
        try:
            arguments = {} if step.needs else step.call_arguments({})
        except Unresolved:
            return False
        return self._invents(step.function, arguments)

    def is_invented(self, call: FunctionCall) -> bool:
        """Whether a required text of the call is in no message."""
        given = call.arguments
        return not isinstance(given, str) and any(
            self._invents(each, given) for each in self.functions if each.tool.name == call.name
        )

    def _invents(self, function: OfferedFunction, arguments: Mapping[str, Any]) -> bool:
        return any(
            self._makes_up(function.schema(name), value)
            for name, value in arguments.items()
            if name in function.required
        )

    def has_unknown_number(self, step: ProgramStep) -> bool:
        """Whether a required number of the step comes neither from the conversation nor from
        another step, nor from an enum. A calculation with numbers of the conversation does."""
        known = self.request_numbers
        return not step.needs and any(
            value != step.function.schema(name).get("default") and not known.explain(value)
            for name in step.function.required & step.arguments.keys()
            if not step.function.schema(name).get("enum")
            for value in numbers_of(step.arguments[name])
        )

    def knows_numbers(self, step: ProgramStep) -> bool:
        """Whether all numbers of the step come from the conversation, or from enums."""
        return self.request_numbers.explain(
            {
                name: value
                for name, value in given_arguments(step).items()
                if not step.function.schema(name).get("enum")
            }
        )

    def names_values(self, step: ProgramStep) -> bool:
        """Whether the required arguments are several values, and the request has all of them."""
        said, values = self.said.lower(), step.required_literals
        return len(values) > 1 and all(
            each.lower() in said or _NUMBER.fullmatch(each) for each in values
        )

    def _makes_up(self, schema: Schema, value: object) -> bool:
        known = bool(schema.get("enum")) or value == schema.get("default")
        return not known and is_made_up(value, self.said)

    def has_addresses(self, text: str) -> bool:
        """Whether all addresses of the text are in the conversation, in a result, or in the
        description of a function."""
        if not (addresses := _ADDRESS.findall(text)):
            return True
        results = compact_json([each.output for each in self.made()])
        described = [each.definition() for each in self.functions]
        texts = (self.said, self.asked.facts, results, *described)
        return all(any(each in text for text in texts) for each in addresses)

    def missing_unit(self) -> str | None:
        """What the request may want a number in, such as "knots", if no result and no call has it.

        A model would write "9 knots" for a result of 9 km/h.
        """
        if not (made := self.made()):
            return None
        last = self._named_field(self.question, made[-1].answer)
        has = compact_json([(each.call.json, each.output) for each in made]).lower()
        missing = (each for each in wanted_units(self.question) if not names_unit(has, each))
        return next(missing, None) if number_in(last) is not None else None

    def may_make(self, call: FunctionCall, others: Sequence[FunctionCall] = ()) -> bool:
        """Whether the call is a new one, without a made-up address."""
        return call_key(call) not in self.already(others) and self.has_addresses(call.json or "")

    def already(self, calls: Sequence[FunctionCall] = ()) -> set[tuple[str, bytes]]:
        """The calls since the last question, and these."""
        made = [call for each in _since_question(self.request) for call in _calls_in(each)]
        return {call_key(call) for call in (*made, *calls)}


def given_arguments(step: ProgramStep) -> dict[str, Any]:
    """The arguments that need no result, without those that are the parameters' defaults."""
    try:
        arguments = step.call_arguments({})
    except Unresolved:
        return {}
    return {
        name: value
        for name, value in arguments.items()
        if value != step.function.schema(name).get("default")
    }


def last_question(request: ModelRequest) -> str:
    return next((each.text for each in reversed(request.messages) if each.role == "user"), "")


def _question(request: ModelRequest) -> str:
    """The last question; a short one, such as "And in Rome?", with the one before it.

    "What is that in miles?" refers to the last answer, not to the question before it.
    """
    questions = [each.text for each in request.messages if each.role == "user" and each.text]
    if not questions:
        return ""
    last = questions[-1]
    is_short = len(last.split()) <= _SHORT_REQUEST_WORDS and not _REFERS.search(last)
    if is_short and len(questions) > 1:
        last = f"{questions[-2]} {last}"
    return quoted(last[-_MAX_REQUEST_CHARS:])[1:-1]


def _facts(request: ModelRequest) -> str:
    """The caller's system message, shortened, without what it says about the assistant's words.

    A model that reads "answer in one sentence" there would answer, and write no program.
    """
    system = next((each.text for each in request.messages if each.role == "system"), "")
    sentences = [each for each in _AFTER_SENTENCE.split(system) if not _BEHAVIOUR.search(each)]
    return _plain(" ".join(sentences)[:_MAX_FACTS_CHARS])


def _earlier(request: ModelRequest) -> str:
    """The last messages before the question, shortened."""
    said = [
        f"{each.role}: {_plain(each.text[:_MAX_EARLIER_CHARS])}"
        for each in _before_question(request)
        if each.role in ("user", "assistant") and each.text
    ]
    return "\n".join(said[-_MAX_EARLIER:])


def _plain(text: str) -> str:
    """The text as one line without markers."""
    return quoted(text)[1:-1]


def _numbers(request: ModelRequest, *, with_results: bool) -> Numbers:
    known = Numbers()
    for message in (
        request.messages
        if with_results
        else (*_before_question(request), request.messages[_last_index(request)])
    ):
        if message.role != "system" and message.text:
            known.add(message.text)
        for response in message.responses:
            known.add(response.output if response.error is None else response.error)
    return known


def _last_index(request: ModelRequest) -> int:
    """The place of the last question."""
    for index in range(len(request.messages) - 1, -1, -1):
        if request.messages[index].role == "user" and not request.messages[index].responses:
            return index
    return 0


def _before_question(request: ModelRequest) -> Sequence[Message]:
    return request.messages[: _last_index(request)]


def _since_question(request: ModelRequest) -> Sequence[Message]:
    return request.messages[_last_index(request) :]


def _calls_in(message: Message) -> list[FunctionCall]:
    return [part for part in message.parts if isinstance(part, FunctionCall)]


def _value(output: Any) -> Any:
    """The value of a result that is JSON text."""
    if isinstance(output, str) and output.lstrip()[:1] in ("{", "["):
        with suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(output)
    return output


def call_key(call: FunctionCall) -> tuple[str, bytes]:
    return call.name, msgspec.json.encode(call.arguments, order="deterministic")
