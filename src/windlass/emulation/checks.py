"""`CheckedModel`: a small model writes the calls that a request needs as a program.

The program ends where the model finds its end likely (`Written`). If all its calls are of one
function, the model answers a small question, "can this function do what the request asks for?".
The probabilities of this answer and of `none` decide. Values get the form that their parameters ask
for (`values`). A step that needs a result is written again when the result is known. A number in an
answer that no result and no request contains is one that the model made up, such as a conversion:
the model must then call a function.
"""

import logging
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from windlass.content import (
    FunctionCall,
    FunctionDeclaration,
    Message,
    Schema,
    Usage,
    new_call_id,
)
from windlass.emulation import relevance
from windlass.emulation.constrain import is_refusal
from windlass.emulation.history import with_system
from windlass.emulation.model import EmulatedModel
from windlass.emulation.numbers import Numbers, numbers_in
from windlass.emulation.output import schema_prompt
from windlass.emulation.planning import Asked, Written, continuing, planning
from windlass.emulation.program import (
    Made,
    Program,
    Signature,
    Step,
    Unresolved,
    numbers_of,
    signatures,
)
from windlass.emulation.prompt import quoted, result_sentence
from windlass.emulation.relevance import is_made_up, shared_words, words_of
from windlass.emulation.values import in_asked_form, named_choices
from windlass.errors import ModelError
from windlass.events import (
    ModelEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.jsontext import compact_json
from windlass.model import (
    AUTO,
    NONE,
    Model,
    ModelRequest,
    callable_functions,
    warmed,
)

log = logging.getLogger("windlass.emulation")

_CALL_EVENTS = (ToolCallStarted, ToolCallDelta, ToolCallEnded)
_SENTENCE_END = re.compile(r"[.!?]\s|\n")
_AFTER_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")
_WANTED_UNIT = re.compile(r"\b(?:in|into|to|as) (?:degrees )?([a-z]+(?:/[a-z]+)?)\b", re.IGNORECASE)
_NUMBER_AND_UNIT = re.compile(
    r"\d\s*(?:degrees?\s|\N{DEGREE SIGN})?\s*([a-z]+(?:/[a-z]+)?)\b", re.IGNORECASE
)
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.\w+|(?<=://)[^\s\"'/?#]+")
"""An e-mail address, or the host of an URL."""
_REFERS = re.compile(r"\b(it|that|them|these|this|those)\b", re.IGNORECASE)
_BEHAVIOUR = re.compile(
    r"\b(you|your|answer|reply|respond|write|speak|sentences?|polite|friendly)\b", re.IGNORECASE
)
"""Words of a system message that tell the assistant how to behave."""

_LIKELY = 0.25
"""How likely it must be that a request asks for a call."""
_MAX_NO_CALL = 0.6
"""How likely `none` may be, if the model is asked for a program without it."""
_CERTAIN = 0.85
"""The same for a call with an argument that the model made up."""
_SEVERAL = 0.15
"""The same for several calls: the model found several things that the request asks for."""
_MAX_REQUEST_CHARS = 1000
_MAX_FACTS_CHARS = 600
_MAX_EARLIER = 4
_MAX_EARLIER_CHARS = 300
_MAX_PROGRAMS = 64
_SHORT_REQUEST_WORDS = 6
_ANSWER_REQUEST = "Answer my request with this, in one or two plain sentences."
_LAST_RESULT = "The last result is what I asked for."
_JSON_REQUEST = "Answer my request with this, in JSON."
_MARK = {"windlass": {"mode": "emulated"}}


class CheckedModel:
    """Gets calls from a small model as a program, and has made-up numbers calculated."""

    mode = "emulated"
    plans_calls = True
    """A request with tools and a schema gets its calls first, and then an answer in the schema."""

    def __init__(self, model: Model, emulated: EmulatedModel) -> None:
        self._model, self._emulated = model, emulated
        self._programs: dict[str, Program] = {}

    @property
    def name(self) -> str:
        return self._model.name

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Raises `ConfigError` if `tool_choice` names a tool that is not offered."""
        tools = callable_functions(request)
        if not tools:
            return self._emulated.stream(_with_schema(request))
        if request.tool_choice.mode != "auto":
            return self._emulated.stream(request)
        task = _Task(request, tools)
        if not request.messages[-1].responses:
            return aclosing(self._first_turn(task))
        if any(each.error is not None for each in request.messages[-1].responses):
            return aclosing(self._after_error(task))
        return aclosing(self._after_results(task))

    async def warm(self, request: ModelRequest) -> None:
        """Makes the model read the start of its questions and of requests with these tools."""
        tools = callable_functions(request)
        if not tools:
            await self._emulated.warm(request)
            return
        await warmed(self._model, relevance.asking("Hello", "hello()"))
        if not request.messages or request.messages[-1].role != "user":
            request = replace(request, messages=(*request.messages, Message.user("Hello")))
        task = _Task(request, tools)
        await warmed(self._model, planning(task.asked))

    async def aclose(self) -> None:
        await self._model.aclose()

    def __repr__(self) -> str:
        return f"CheckedModel({self._model!r})"

    async def _first_turn(self, task: "_Task") -> AsyncGenerator[ModelEvent, None]:
        try:
            program, spent = await self._program(task)
        except ModelError as problem:
            if not is_refusal(problem):
                raise
            log.info("%s cannot constrain decoding to a grammar: %s", self.name, problem)
            async with self._emulated.stream(task.request) as events:
                async for event in events:
                    yield event
            return
        if calls := _first_calls(task, program):
            for event in _turn(task, calls, spent):
                yield event
            return
        async with self._answer(task, spent) as events:
            async for event in events:
                yield event

    async def _checked_answer(
        self, task: "_Task", spent: Usage, another: "_AnotherStep"
    ) -> AsyncGenerator[ModelEvent, None]:
        """Answers in words. If a number is made up, `another` may return calls in its place."""
        if task.request.settings.response_schema is not None:
            async with self._answer(task, spent) as events:
                async for event in events:
                    yield event
            return
        sentences, end = _Sentences(task.known, task.missing_units()), TurnEnded("other")
        async with self._answer(task, spent) as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    end = event
                elif not isinstance(event, TextDelta):
                    yield event
                elif text := sentences.feed(event.text):
                    yield TextDelta(text)
        if sentences.end():
            calls, usage = await another(task)
            end = replace(end, usage=end.usage + usage)
            if calls:
                log.info("%s made up a number; it calls %s", self.name, calls[0].name)
                for event in _turn(task, calls, end.usage):
                    yield event
                return
        if sentences.held:
            yield TextDelta(sentences.held)
        yield end

    async def _after_results(self, task: "_Task") -> AsyncGenerator[ModelEvent, None]:
        spent = Usage()
        made = task.made()
        try:
            program, spent = await self._program(task)
            values, rest = program.values(made)
            task.chained = bool(program.steps) and bool(program.steps[-1].needs)
        except ModelError as problem:
            if not is_refusal(problem):
                raise
            program, values, rest = Program(()), dict[str, Any](), list[Step]()
        calls: list[FunctionCall] = []
        for step in rest:
            if step.needs <= values.keys():
                call, usage = await self._step(task, program, values, step)
                spent += usage
                if call is not None and task.may_make(call, calls):
                    calls.append(call)
        if calls:
            for event in _turn(task, calls, spent):
                yield event
            return

        async def another(task: "_Task") -> tuple[list[FunctionCall], Usage]:
            call, usage = await self._missing_step(task, program, values)
            return [call] if call is not None and task.may_make(call) else [], usage

        async with aclosing(self._checked_answer(task, spent, another)) as events:
            async for event in events:
                yield event

    async def _after_error(self, task: "_Task") -> AsyncGenerator[ModelEvent, None]:
        """The model may put a failed call right, but not make it again as it was."""
        held: list[ModelEvent] = []
        spent = Usage()
        async with self._emulated.stream(task.request) as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    spent = event.usage
                if held or isinstance(event, _CALL_EVENTS):
                    held.append(event)
                else:
                    yield event
        calls = [event.call for event in held if isinstance(event, ToolCallEnded)]
        made = task.already()
        new = {_key(call): call for call in calls if _key(call) not in made}
        if new:
            for event in _turn(task, list(new.values()), spent):
                yield event
        elif calls:
            async with self._answer(task, spent) as events:
                async for event in events:
                    yield event

    async def _program(self, task: "_Task") -> tuple[Program, Usage]:
        """The program of the request. A model writes the same one again, so it is kept."""
        key = task.asked.text()
        if key in self._programs:
            return self._programs[key], Usage()
        said = await self._said(planning(task.asked))
        program, spent = Program.read(said.program(), task.functions), said.usage
        no_call = said.no_call()
        first = program.steps[0] if program.steps else None
        if first is None and no_call <= _MAX_NO_CALL:
            program, usage = await self._begun_anyway(task)
            spent += usage
        elif first is not None and not task.request_numbers.explain(_given(first)):
            again, usage = await self._begun_otherwise(task, first)
            program, spent = again or program, spent + usage
        program = task.without_inventions(program)
        doubtful = first is None or len(program.names) == 1
        if program.steps and doubtful and not task.made():
            wanted, usage = await self._wanted(task, program, no_call)
            spent += usage
            if not wanted:
                log.info("%s does not need the function that it called", self.name)
                program = Program(())
        while len(self._programs) >= _MAX_PROGRAMS:
            del self._programs[next(iter(self._programs))]
        self._programs[key] = program
        return program, spent

    async def _begun_anyway(self, task: "_Task") -> tuple[Program, Usage]:
        """A program for a request for which `none` was the likeliest word, but a call likelier."""
        names = [each.name for each in task.functions]
        said = await self._said(planning(task.asked, names))
        program = Program.read(said.program(), task.functions)
        first = program.steps[0] if program.steps else None
        if first is None or not task.request_numbers.explain(_given(first)):
            return Program(()), said.usage
        return program, said.usage

    async def _begun_otherwise(self, task: "_Task", first: Step) -> tuple[Program | None, Usage]:
        """A program that gets what `first` needs from a call of another function before it.

        The model made up the result of a step that it left out.
        """
        others = [each.name for each in task.functions if each is not first.function]
        if not others:
            return None, Usage()
        said = await self._said(planning(task.asked, others))
        program = Program.read(said.program(), task.functions)
        begins_well = bool(program.steps) and task.request_numbers.explain(_given(program.steps[0]))
        goes_on = any(each.function is first.function and each.needs for each in program.steps)
        return (program if begins_well and goes_on else None), said.usage

    async def _step(
        self, task: "_Task", program: Program, values: dict[str, Any], step: Step
    ) -> tuple[FunctionCall | None, Usage]:
        """The call of a step, with the results of the steps before it.

        The model writes the step again, with the results in front of it: it then puts other
        arguments right, too. A step that does not use a result stays as it was.
        """
        if not step.needs:
            return _certain(task, step, values), Usage()
        again, spent = await self._written_again(
            task, program, values, [step.function], step.purpose
        )
        if again is not None and (again.needs or _uses(again, values)):
            call = _certain(task, again, values)
            if call is not None:
                return call, spent
        return _certain(task, step, values), spent

    async def _written_again(
        self,
        task: "_Task",
        program: Program,
        values: dict[str, Any],
        functions: Sequence[Signature],
        purpose: str = "",
    ) -> tuple[Step | None, Usage]:
        """A step with one of the functions, after the steps that have values."""
        done = [(step, values[step.variable]) for step in program.steps if step.variable in values]
        text, spent = await self._text(continuing(task.asked, done, functions, purpose))
        lines = "\n".join(step.line for step, _ in done)
        steps = Program.read(f"{lines}\n{text}", task.functions).steps[len(done) :]
        return (steps[0] if steps else None), spent

    async def _missing_step(
        self, task: "_Task", program: Program, values: dict[str, Any]
    ) -> tuple[FunctionCall | None, Usage]:
        """A call that no step of the program has, but that the request needs.

        It has a result or a value of the request: the model has to write some call.
        """
        called = {each.call.name for each in task.made()}
        others = [each for each in task.functions if each.tool.name not in called]
        if not others:
            return None, Usage()
        step, spent = await self._written_again(task, program, values, others)
        if step is None or not (step.needs or _uses(step, values) or task.mentions(step)):
            return None, spent
        return _certain(task, step, values), spent

    async def _wanted(self, task: "_Task", program: Program, no_call: float) -> tuple[bool, Usage]:
        """Whether the request asks for what the first function of the program does.

        A call with a made-up argument is doubtful: only a certain answer counts.
        """
        first = program.steps[0]
        fit, usage = await self._fit(task, first.function.tool)
        made_up = any(
            task.has_made_up(step) or task.has_unknown_number(step) for step in program.steps
        )
        log.debug("%s: fits %.2f, no call %.2f", first.function.name, fit, no_call)
        limit = _CERTAIN if made_up else _LIKELY if len(program.steps) == 1 else _SEVERAL
        return fit * (1 - no_call) >= limit, usage

    async def _fit(self, task: "_Task", tool: FunctionDeclaration) -> tuple[float, Usage]:
        """How likely it is that the function can do what the request asks for."""
        said = await self._said(relevance.asking(task.question, relevance.described(tool)))
        return relevance.fit(said.text, said.likely.get(0, {})), said.usage

    def _answer(
        self, task: "_Task", spent: Usage
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return aclosing(self._answer_events(task, spent))

    async def _answer_events(self, task: "_Task", spent: Usage) -> AsyncGenerator[ModelEvent, None]:
        """Answers in words, without functions."""
        request = _with_schema(task.request)
        turn = (
            self._model.stream(_answering(request, task.made() if task.chained else ()))
            if request.messages[-1].responses
            else self._emulated.stream(replace(request, tool_choice=NONE))
        )
        async with turn as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    extra = {**_MARK, **(event.message_extra or {})}
                    event = replace(event, usage=spent + event.usage, message_extra=extra)
                yield event

    async def _text(self, request: ModelRequest) -> tuple[str, Usage]:
        said = await self._said(request)
        return said.text, said.usage

    async def _said(self, request: ModelRequest) -> Written:
        text, usage, likely = "", Usage(), dict[int, dict[str, float]]()
        async with self._model.stream(request) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    likely[len(text)] = relevance.first_token(event.logprobs)
                    text += event.text
                elif isinstance(event, TurnEnded):
                    usage = event.usage
        return Written(text, usage, likely)


_AnotherStep: TypeAlias = Callable[["_Task"], Awaitable[tuple[list[FunctionCall], Usage]]]
"""Returns the calls that a request needs after all, and the usage of finding them."""


class _Task:
    """A request: its question, what the question may refer to, and the calls made for it."""

    def __init__(self, request: ModelRequest, tools: Sequence[FunctionDeclaration]) -> None:
        self.request = request
        self.functions = signatures(tools)
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

    def mentions(self, step: Step) -> bool:
        """Whether the question contains a value of the step."""
        question = self.question.lower()
        return any(value.lower() in question for value in step.literals)

    @property
    def said(self) -> str:
        """The text of the conversation."""
        return " ".join((*(each.text for each in self.request.messages), self.question))

    def explains(self, step: Step, name: str, value: object) -> bool:
        """Whether an optional argument comes from the conversation, or is a value that the
        parameter's description names. A small model fills in all parameters that it sees.

        A flag may come from the comment of the call: the model says there what the request means.
        """
        schema = step.function.schema(name)
        if isinstance(value, bool):
            said = f"{self.said} {step.purpose}"
            return value == schema.get("default") or not is_made_up(words_of(name), said)
        described = str(schema.get("description") or "").lower()
        named = isinstance(value, str) and value.lower() in described
        return self.request_numbers.explain(value) and (named or not self._makes_up(schema, value))

    def without_inventions(self, program: Program) -> Program:
        """The program without calls that the request cannot ask for.

        These are calls with an address that nobody mentioned, and further ones with another
        required text that nobody mentioned, or for something that another call is already for.
        """
        kept: list[Step] = []
        for step in program.steps:
            if self.has_addresses(step.line) and not (
                kept and (self.has_made_up(step) or self._is_alternative(step, kept))
            ):
                kept.append(step)
        return Program(kept)

    def _is_alternative(self, step: Step, others: Sequence[Step]) -> bool:
        """Whether a call of another function adds no value and no word of the request.

        A model that knows two shops asks both, although the request names one.
        """
        if step.needs or not step.purpose or step.function in [each.function for each in others]:
            return False
        words = [shared_words(each.purpose, self.said) for each in others]
        values = [each.literals for each in others]
        new = step.literals.difference(*values)
        adds = any(re.search(rf"(?i)(?<!\w){re.escape(each)}(?!\w)", self.question) for each in new)
        return not adds and not shared_words(step.purpose, self.said).difference(*words)

    def has_made_up(self, step: Step) -> bool:
        """Whether a required argument of the step comes neither from the conversation nor from
        another step."""
        try:
            arguments = {} if step.needs else step.call_arguments({})
        except Unresolved:
            return False
        return any(
            self._makes_up(step.function.schema(name), value)
            for name, value in arguments.items()
            if name in step.function.required
        )

    def has_unknown_number(self, step: Step) -> bool:
        """Whether a required number of the step comes neither from the conversation nor from
        another step. A calculation with numbers of the conversation does."""
        known = self.request_numbers
        return not step.needs and any(
            value != step.function.schema(name).get("default") and not known.explain(value)
            for name in step.function.required & step.arguments.keys()
            for value in numbers_of(step.arguments[name])
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

    def missing_units(self) -> set[str]:
        """The units that the request wants a result in, and that no result and no call has.

        A model would write "9 m/s" for a result of 9 km/h.
        """
        made = self.made()
        if not made:
            return set()
        has = compact_json([(each.call.json, each.output) for each in made]).lower()
        wanted = {found[1].lower() for found in _WANTED_UNIT.finditer(self.question)}
        return {unit for unit in wanted if unit not in has}

    def may_make(self, call: FunctionCall, others: Sequence[FunctionCall] = ()) -> bool:
        """Whether the call is a new one, without a made-up address."""
        return _key(call) not in self.already(others) and self.has_addresses(call.json or "")

    def already(self, calls: Sequence[FunctionCall] = ()) -> set[tuple[str, bytes]]:
        """The calls since the last question, and these."""
        made = [call for each in _since_question(self.request) for call in _calls_in(each)]
        return {_key(call) for call in (*made, *calls)}


class _Sentences:
    """Passes text sentence by sentence, up to the first one with a made-up number or unit."""

    def __init__(self, known: Numbers, units: set[str]) -> None:
        self._known, self._units, self._doubtful = known, units, False
        self.held = ""
        """What may not pass yet: the start of a sentence, or all from the made-up number on."""

    def feed(self, text: str) -> str:
        """Takes text, and returns the sentences that may pass."""
        self.held += text
        passed = ""
        if self.held.lstrip().startswith(("`", "{")):
            return passed
        while not self._doubtful and (end := _SENTENCE_END.search(self.held)):
            sentence = self.held[: end.end()]
            self._doubtful = self._has_doubt(sentence)
            if not self._doubtful:
                passed += sentence
                self.held = self.held[len(sentence) :]
        return passed

    def end(self) -> bool:
        """Whether the text has a made-up number or unit."""
        return self._doubtful or self._has_doubt(self.held)

    def _has_doubt(self, sentence: str) -> bool:
        named = {found[1].lower() for found in _NUMBER_AND_UNIT.finditer(sentence)}
        return bool(self._known.unknown(sentence)) or bool(named & self._units)


def _first_calls(task: _Task, program: Program) -> list[FunctionCall]:
    """The calls that need no result, each once, without optional arguments that are made up."""
    calls: dict[tuple[str, bytes], FunctionCall] = {}
    for step in program.steps:
        if step.needs:
            continue
        try:
            arguments = step.call_arguments({})
        except Unresolved:
            continue
        required = step.function.required
        call = _call(
            step,
            {
                name: in_asked_form(name, value, step.function.schema(name), task.question)
                for name, value in arguments.items()
                if name in required or task.explains(step, name, value)
            }
            | (named_choices(step, task.question) if len(program.steps) == 1 else {}),
        )
        # A call that only adds a parameter's default is the same call.
        calls.setdefault(_key(_call(step, _given(step))), call)
    made = list(calls.values())
    return [call for call in made if not any(_is_part(call, other) for other in made)]


def _is_part(call: FunctionCall, other: FunctionCall) -> bool:
    """Whether the other call has all arguments of this one, and more."""
    given, more = call.arguments, other.arguments
    if call.name != other.name or isinstance(given, str) or isinstance(more, str):
        return False
    return len(given) < len(more) and all(
        name in more and more[name] == value for name, value in given.items()
    )


def _certain(task: _Task, step: Step, values: dict[str, Any]) -> FunctionCall | None:
    """The call of the step, if all its values are known.

    A step without a variable may have a made-up number in place of a result.
    """
    try:
        arguments = step.call_arguments(values)
    except Unresolved:
        return None
    known = bool(step.needs) or task.known.explain(arguments)
    return _call(step, arguments) if known else None


def _uses(step: Step, values: dict[str, Any]) -> bool:
    """Whether a number of the step is one of these results."""
    results = {value for value, _ in numbers_in(compact_json(values))}
    return any(value in results for value, _ in numbers_in(step.line))


def _given(step: Step) -> dict[str, Any]:
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


def _call(step: Step, arguments: dict[str, Any]) -> FunctionCall:
    text = msgspec.json.encode(arguments).decode()
    return FunctionCall(step.function.tool.name, text, new_call_id())


def _turn(task: _Task, calls: Sequence[FunctionCall], usage: Usage) -> list[ModelEvent]:
    """The events of a turn with these calls."""
    made: list[ModelEvent] = []
    for index, call in enumerate(
        calls if task.request.parallel_tool_calls is not False else calls[:1]
    ):
        made += [
            ToolCallStarted(index, call.id, call.name),
            ToolCallDelta(index, call.json),
            ToolCallEnded(index, call),
        ]
    return [*made, TurnEnded("tool_calls", usage, message_extra=_MARK)]


def _with_schema(request: ModelRequest) -> ModelRequest:
    """Describes the schema of the answer, if there is one: the runtime only enforces it."""
    schema = request.settings.response_schema
    if schema is None:
        return request
    return replace(request, messages=with_system(request.messages, schema_prompt(schema)))


def _answering(request: ModelRequest, chain: Sequence[Made]) -> ModelRequest:
    """Asks for an answer from all results, without the calls, which the model would imitate.

    The last result of a `chain` is the answer. Its results are shown without the numbers of their
    calls: the model would answer with the number that was converted.
    """
    system = [message for message in request.messages if message.role == "system"]
    results: list[str] = []
    for message in reversed(request.messages):
        if message.role == "user" and not message.responses:
            break
        results = [*map(result_sentence, message.responses), *results]
    how = _ANSWER_REQUEST if request.settings.response_schema is None else _JSON_REQUEST
    if len(chain) > 1:
        said = [f"he function {each.call.name} returned: {quoted(each.answer)}" for each in chain]
        results = [*(f"T{each}" for each in said[:-1]), f"With this, t{said[-1]}"]
        how = f"{_LAST_RESULT} {how}"
    text = "\n".join((_last_question(request), "", *results, how))
    return replace(
        request,
        messages=(*system, Message.user(text)),
        tools=tuple(each for each in request.tools if not isinstance(each, FunctionDeclaration)),
        tool_choice=AUTO,
        parallel_tool_calls=None,
    )


def _last_question(request: ModelRequest) -> str:
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


def _key(call: FunctionCall) -> tuple[str, bytes]:
    return call.name, msgspec.json.encode(call.arguments, order="deterministic")
