"""`CheckedModel`: a small model writes the calls that a request needs as a program.

The program ends where the model finds its end likely (`Written`). If all its calls are of one
function, the model answers a small question, "can this function do what the request asks for?".
The probabilities of this answer and of `none` decide. Values get the form that their parameters ask
for (`values`). A step that needs a result is written again when the result is known. A number in an
answer that no result and no request contains is one that the model made up, such as a conversion:
the model must then call a function.
"""

import logging
import math
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from windlass.content import (
    FunctionCall,
    FunctionDeclaration,
    Message,
    Usage,
    new_call_id,
)
from windlass.emulation import relevance
from windlass.emulation.constrain import is_refusal
from windlass.emulation.history import with_system
from windlass.emulation.model import EmulatedModel
from windlass.emulation.numbers import Numbers, numbers_in
from windlass.emulation.output import schema_prompt
from windlass.emulation.planning import Written, adding, continuing, extending, planning
from windlass.emulation.program import (
    MAX_STEPS,
    Made,
    OfferedFunction,
    Program,
    ProgramStep,
    Unresolved,
    is_number,
)
from windlass.emulation.prompt import quoted, result_sentence
from windlass.emulation.task import (
    Task,
    call_key,
    last_question,
)
from windlass.emulation.units import is_in_unit
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

_LOOP = re.compile(r"(?=.*\D)(.{4,30}?)\1{7}$")
"""The end of a text that would go on until the token limit."""
_NO_WORDS = re.compile(r"[^a-zA-Z]*\d[^a-zA-Z]*")
_FITS = 0.4
"""How likely it must be that a function does what a request asks for."""
_LIKELY = 0.3
"""How certain it must be that a request asks for a call, see `_certainty`."""
_MAX_NO_CALL = 0.8
"""How likely `none` may be, if the model is asked for a program without it."""
_CERTAIN = 0.85
"""The same for a call with an argument that the model made up."""
_SEVERAL = 0.1
"""The same for several calls, or one with several values of the request, such as a number."""
_CERTAIN_END = 0.6
"""How likely the end of a program must be, so that no step is missing."""
_MAX_PROGRAMS = 64
_MAX_PURPOSE_CHARS = 160
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
        task = Task(request, tools)
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
        if not request.messages or request.messages[-1].role != "user":
            request = replace(request, messages=(*request.messages, Message.user("Hello")))
        task = Task(request, tools)
        await warmed(self._model, relevance.asking("Hello", "hello()"), planning(task.asked))

    async def aclose(self) -> None:
        await self._model.aclose()

    def __repr__(self) -> str:
        return f"CheckedModel({self._model!r})"

    async def _first_turn(self, task: Task) -> AsyncGenerator[ModelEvent, None]:
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
        self, task: Task, spent: Usage, another: "_AnotherStep"
    ) -> AsyncGenerator[ModelEvent, None]:
        """Answers in words. If a number is made up, `another` may return calls in its place."""
        if task.request.settings.response_schema is not None:
            async with self._answer(task, spent) as events:
                async for event in events:
                    yield event
            return
        sentences, end = _Sentences(task.known, task.final_numbers()), TurnEnded("other")
        async with self._answer(task, spent) as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    end = event
                elif not isinstance(event, TextDelta):
                    yield event
                elif text := sentences.feed(event.text):
                    yield TextDelta(text)
        if sentences.awaits:
            log.info("%s answered without the last result; it answers again", self.name)
            async with self._answer(task, end.usage, only_last=True) as events:
                async for event in events:
                    yield event
            return
        if sentences.end():
            calls, usage = await another(sentences.doubtful())
            end = replace(end, usage=end.usage + usage)
            if calls:
                log.info("%s made up a number; it calls %s", self.name, calls[0].name)
                for event in _turn(task, calls, end.usage):
                    yield event
                return
        if sentences.held:
            yield TextDelta(sentences.held)
        yield end

    async def _after_results(self, task: Task) -> AsyncGenerator[ModelEvent, None]:
        spent = Usage()
        made = task.made()
        try:
            program, spent = await self._program(task)
            values, rest = program.values(made)
            task.chained = bool(program.steps) and bool(program.steps[-1].needs)
        except ModelError as problem:
            if not is_refusal(problem):
                raise
            program, values, rest = Program(()), dict[str, Any](), list[ProgramStep]()
        calls: list[FunctionCall] = []
        for step in rest:
            if step.needs <= values.keys():
                call, usage = await self._step(task, program, values, step)
                spent += usage
                if call is not None and task.may_make(call, calls):
                    calls.append(call)
        if not calls and (unit := task.missing_unit()):
            call, usage = await self._missing_step(task, program, values, f"that in {unit}")
            spent += usage
            if call is not None and is_in_unit(call, unit) and task.may_make(call):
                calls.append(call)
        if calls:
            for event in _turn(task, calls, spent):
                yield event
            return

        async def another(purpose: str) -> tuple[list[FunctionCall], Usage]:
            call, usage = await self._missing_step(task, program, values, purpose)
            return [call] if call is not None and task.may_make(call) else [], usage

        async with aclosing(self._checked_answer(task, spent, another)) as events:
            async for event in events:
                yield event

    async def _after_error(self, task: Task) -> AsyncGenerator[ModelEvent, None]:
        """The model may put a failed call right, but not make it again as it was.

        Another call may not have a made-up text.
        """
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
        made, failed = task.already(), task.failed()
        new = {
            call_key(call): call
            for call in calls
            if call_key(call) not in made and (call.name in failed or not task.is_invented(call))
        }
        if new:
            for event in _turn(task, list(new.values()), spent):
                yield event
        elif calls:
            async with self._answer(task, spent) as events:
                async for event in events:
                    yield event

    async def _program(self, task: Task) -> tuple[Program, Usage]:
        """The program of the request. A model writes the same one again, so it is kept."""
        key = task.asked.text()
        if key in self._programs:
            return self._programs[key], Usage()
        said = await self._said(planning(task.asked))
        program, spent = _read(said, task), said.usage
        no_call = said.no_call()
        first = program.steps[0] if program.steps else None
        if first is None and no_call <= _MAX_NO_CALL:
            program, usage = await self._begun_anyway(task)
            spent += usage
        elif first is not None and not task.knows_numbers(first):
            again, usage = await self._begun_otherwise(task, first)
            program, spent = again or program, spent + usage
        program, usage = await self._extended(task, task.without_inventions(program))
        spent += usage
        program, usage = await self._completed(task, program)
        spent += usage
        program = task.with_calls_for_lists(program)
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

    async def _extended(self, task: Task, program: Program) -> tuple[Program, Usage]:
        """The program with the optional arguments that the model left out.

        If the request has a number that no call has, and all calls are of one function, the model
        continues the first one with one more argument. It counts if it has such a number, and
        nothing that is made up, and then all calls get it.
        """
        spent, steps = Usage(), list(program.steps)
        if not steps or any(each.needs or each.function is not steps[0].function for each in steps):
            return program, spent
        while steps[0].open_parameters and task.unused_numbers(steps):
            said = await self._said(extending(task.asked, steps[0]))
            spent += said.usage
            longer = [each.with_argument(said.text) or each for each in steps]
            if not task.may_add(longer[0], steps):
                break
            steps = longer
        return Program(steps, program.end), spent

    async def _completed(self, task: Task, program: Program) -> tuple[Program, Usage]:
        """The program with the steps that the model left out.

        If the end was doubtful, and the request has a number or a name that no step has, the model
        writes one more step. It counts if it has such a value, and nothing that is made up.
        """
        spent = Usage()
        while 0 < len(program.steps) < MAX_STEPS and program.end < _CERTAIN_END:
            if not (unused := task.unused(program.steps)):
                break
            step, usage = await self._added(task, program)
            spent += usage
            if step is None or not task.uses(step, unused):
                break
            longer = task.without_inventions(Program([*program.steps, step], program.end))
            if len(longer.steps) == len(program.steps):
                break
            program = longer
        return program, spent

    async def _added(self, task: Task, program: Program) -> tuple[ProgramStep | None, Usage]:
        """One more step for a program."""
        said = await self._said(adding(task.asked, program.steps))
        lines = "".join(f"{each.line}\n" for each in program.steps)
        again = Program.read(
            lines + said.text, task.functions, lambda place: said.call_end(place - len(lines))
        )
        added = again.steps[len(program.steps) :]
        return (added[0] if added else None), said.usage

    async def _begun_anyway(self, task: Task) -> tuple[Program, Usage]:
        """A program for a request for which `none` was the likeliest word, but a call likelier."""
        names = [each.name for each in task.functions]
        said = await self._said(planning(task.asked, names))
        program = _read(said, task)
        first = program.steps[0] if program.steps else None
        if first is None or not task.knows_numbers(first):
            return Program(()), said.usage
        return program, said.usage

    async def _begun_otherwise(
        self, task: Task, first: ProgramStep
    ) -> tuple[Program | None, Usage]:
        """A program that begins with another function, because `first` has a made-up number.

        Either the model left out a step and made up its result, or it calculates what another
        function does, such as a conversion.
        """
        others = [each.name for each in task.functions if each is not first.function]
        if not others:
            return None, Usage()
        said = await self._said(planning(task.asked, others))
        program, spent = _read(said, task), said.usage
        if not program.steps or not task.knows_numbers(program.steps[0]):
            return None, spent
        after, usage = await self._fit(task, program.steps[0].function.tool)
        spent += usage
        if after < _FITS:
            return None, spent
        if any(each.function is first.function and each.needs for each in program.steps):
            return program, spent
        before, usage = await self._fit(task, first.function.tool)
        return (program if after > before else None), spent + usage

    async def _step(
        self, task: Task, program: Program, values: dict[str, Any], step: ProgramStep
    ) -> tuple[FunctionCall | None, Usage]:
        """The call of a step, with the results of the steps before it.

        If it is not clear which value of a result the step means, and it has other arguments, the
        model writes it again, with the results in front of it: it then knows their units. For one
        argument, the field that the request names is enough.
        """
        spent, call = Usage(), _certain(task, step, values)
        if call is None and step.needs and len(step.arguments) > 1:
            again, spent = await self._written_again(
                task, program, values, [step.function], step.purpose
            )
            if again is not None and _uses(again, values):
                call = _certain(task, again, values)
        return call or _certain(task, step, task.named_fields(step, values)), spent

    async def _written_again(
        self,
        task: Task,
        program: Program,
        values: dict[str, Any],
        functions: Sequence[OfferedFunction],
        purpose: str = "",
    ) -> tuple[ProgramStep | None, Usage]:
        """A step with one of the functions, after the steps that have values."""
        done = [(step, values[step.variable]) for step in program.steps if step.variable in values]
        text, spent = await self._text(continuing(task.asked, done, functions, purpose))
        lines = "\n".join(step.line for step, _ in done)
        steps = Program.read(f"{lines}\n{text}", task.functions).steps[len(done) :]
        return (steps[0] if steps else None), spent

    async def _missing_step(
        self, task: Task, program: Program, values: dict[str, Any], purpose: str
    ) -> tuple[FunctionCall | None, Usage]:
        """A call that no step of the program has, but that the request needs.

        It calculates with a result, or has a value of the request that no call has and fits the
        request: the model has to write some call. `purpose` is the comment of the call.
        """
        called = {each.call.name for each in task.made()}
        others = [each for each in task.functions if each.tool.name not in called]
        if not others:
            return None, Usage()
        step, spent = await self._written_again(task, program, values, others, purpose)
        call = None if step is None else _certain(task, step, values)
        if step is None or call is None:
            return None, spent
        if _uses(step, values):
            return call if _calculates(call) else None, spent
        if not task.has_new_value(step, program.steps):
            return None, spent
        fit, usage = await self._fit(task, step.function.tool)
        return call if fit >= _FITS else None, spent + usage

    async def _wanted(self, task: Task, program: Program, no_call: float) -> tuple[bool, Usage]:
        """Whether the request asks for what the first function of the program does.

        A call with a made-up argument is doubtful: only a certain answer counts.
        """
        first = program.steps[0]
        fit, usage = await self._fit(task, first.function.tool)
        made_up = any(
            task.has_made_up(step) or task.has_unknown_number(step) for step in program.steps
        )
        log.debug("%s: fits %.2f, no call %.2f", first.function.name, fit, no_call)
        several = len(program.steps) > 1 or task.names_values(first)
        limit = _CERTAIN if made_up else _SEVERAL if several else _LIKELY
        return _certainty(fit, no_call) >= limit, usage

    async def _fit(self, task: Task, tool: FunctionDeclaration) -> tuple[float, Usage]:
        """How likely it is that the function can do what the request asks for."""
        said = await self._said(relevance.asking(task.question, relevance.described(tool)))
        return relevance.fit(said.text, said.likely.get(0, {})), said.usage

    def _answer(
        self, task: Task, spent: Usage, *, only_last: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return aclosing(self._answer_events(task, spent, only_last))

    async def _answer_events(
        self, task: Task, spent: Usage, only_last: bool
    ) -> AsyncGenerator[ModelEvent, None]:
        """Answers in words, without functions; with `only_last`, from the last result alone."""
        request = _with_schema(task.request)
        chain = task.made() if task.chained else ()
        turn = (
            self._model.stream(_answering(request, chain[-1:] if only_last else chain))
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
                    if ("\n" in event.text and _repeats_itself(text)) or _LOOP.search(text[-300:]):
                        # It would go on until the token limit, and its usage is not reported.
                        usage = Usage(0, len(likely), len(likely))
                        break
                elif isinstance(event, TurnEnded):
                    usage = event.usage
        return Written(text, usage, likely)


def _repeats_itself(text: str) -> bool:
    """Whether the last whole line is a statement that the text already has."""
    *lines, last, _ = ["", *text.split("\n")]
    return bool(last) and not last.startswith("#") and last in lines


_AnotherStep: TypeAlias = Callable[[str], Awaitable[tuple[list[FunctionCall], Usage]]]
"""Takes a sentence without its made-up numbers.

Returns the calls that a request needs after all, and the usage of finding them."""


def _certainty(fit: float, no_call: float) -> float:
    """How certain it is that a request asks for a call. The probability that the function fits
    counts more than that of `none`: with one offered function, the model likes to write `none`."""
    return fit**2 * math.sqrt(1 - min(no_call, 1.0))


class _Sentences:
    """Passes text sentence by sentence, up to the first one with a made-up number.

    Nothing passes before one of the `awaited` numbers.
    """

    def __init__(self, known: Numbers, awaited: Numbers | None) -> None:
        self._known, self._awaited, self._doubtful = known, awaited, False
        self.held = ""
        """What may not pass yet: the start of a sentence, or all from the made-up number on."""

    def feed(self, text: str) -> str:
        """Takes text, and returns the sentences that may pass."""
        self.held += text
        passed = ""
        if self.held.lstrip().startswith(("`", "{")):
            return passed
        if self._awaited is not None:
            # The last word may be the start of a longer number.
            whole, _, _ = self.held.rpartition(" ")
            if not self._awaited.are_in(whole):
                return passed
            self._awaited = None
        while not self._doubtful and (end := _SENTENCE_END.search(self.held)):
            sentence = self.held[: end.end()]
            self._doubtful = bool(self._known.unknown(sentence))
            if not self._doubtful:
                passed += sentence
                self.held = self.held[len(sentence) :]
        return passed

    @property
    def awaits(self) -> bool:
        """Whether none of the awaited numbers was in the text."""
        return self._awaited is not None and not self._awaited.are_in(self.held)

    def doubtful(self) -> str:
        """The first sentence with a made-up number, with "x" in place of these numbers."""
        sentences = _SENTENCE_END.split(self.held)
        found = next((each for each in sentences if self._known.unknown(each)), self.held)
        return quoted(self._known.masked(found))[1:-1][:_MAX_PURPOSE_CHARS]

    def end(self) -> bool:
        """Whether the text has a made-up number."""
        return self._doubtful or bool(self._known.unknown(self.held))


def _read(said: Written, task: Task) -> Program:
    return Program.read(said.text, task.functions, said.call_end, said.program_end)


def _first_calls(task: Task, program: Program) -> list[FunctionCall]:
    """The calls that need no result, without optional arguments that are made up."""
    calls: list[FunctionCall] = []
    for step in program.steps:
        if step.needs:
            continue
        try:
            arguments = step.call_arguments({})
        except Unresolved:
            continue
        named = named_choices(step, task.question) if len(program.steps) == 1 else {}
        given = {
            name: in_asked_form(name, value, step.function.schema(name), task.question)
            for name, value in arguments.items()
            if task.keeps(step, name, value)
        }
        calls.append(_call(step, given | named))
    return calls


def _certain(task: Task, step: ProgramStep, values: dict[str, Any]) -> FunctionCall | None:
    """The call of the step, if all its values are known.

    A step without a variable may have a made-up number in place of a result.
    """
    try:
        arguments = step.call_arguments(values)
    except Unresolved:
        return None
    known = bool(step.needs) or task.known.explain(arguments)
    return _call(step, arguments) if known else None


def _uses(step: ProgramStep, values: dict[str, Any]) -> bool:
    """Whether the step has one of these results, perhaps as a number."""
    if step.needs:
        return True
    results = {value for value, _ in numbers_in(compact_json(values))}
    return any(value in results for value, _ in numbers_in(step.line))


def _calculates(call: FunctionCall) -> bool:
    """Whether an argument is a number or a formula, and not a text about a number."""
    given = call.arguments
    values = () if isinstance(given, str) else given.values()
    return any(is_number(each) or _NO_WORDS.fullmatch(str(each)) for each in values)


def _call(step: ProgramStep, arguments: dict[str, Any]) -> FunctionCall:
    text = msgspec.json.encode(arguments).decode()
    return FunctionCall(step.function.tool.name, text, new_call_id())


def _turn(task: Task, calls: Sequence[FunctionCall], usage: Usage) -> list[ModelEvent]:
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
    if chain:
        said = [f"he function {each.call.name} returned: {quoted(each.answer)}" for each in chain]
        results = [f"T{each}" for each in said]
        if len(said) > 1:
            results[-1] = f"With this, t{said[-1]}"
        how = f"{_LAST_RESULT} {how}"
    text = "\n".join((last_question(request), "", *results, how))
    return replace(
        request,
        messages=(*system, Message.user(text)),
        tools=tuple(each for each in request.tools if not isinstance(each, FunctionDeclaration)),
        tool_choice=AUTO,
        parallel_tool_calls=None,
    )
