"""`output=`: every verb, every face, and how it meets the other options of a run."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.typed_answers import BAD, ERRORS, GOOD, INVOICE, Invoice

from windlass import AsyncClient, Client, ConfigError, OutputInvalid, ToolError, tool
from windlass.events import OutputRejected, Status, TextDelta
from windlass.testing import ScriptedModel, call, calls, say


@tool
def price(item: str) -> float:
    """The price of an item."""
    return 12.5


class Faces:
    """One prompt through a verb of the sync or the async client."""

    def __init__(self, *script: Any) -> None:
        self.model = ScriptedModel(list(script))

    async def generate(self, **options: Any) -> Any:
        async with AsyncClient(self.model) as client:
            return await client.generate("?", **options)

    async def stream(self, **options: Any) -> Any:
        async with AsyncClient(self.model) as client, client.stream("?", **options) as stream:
            async for _ in stream:
                pass
            return stream.reply

    async def start(self, **options: Any) -> Any:
        async with AsyncClient(self.model) as client:
            return await (await client.start("?", **options)).result()

    async def chat_send(self, **options: Any) -> Any:
        async with AsyncClient(self.model) as client:
            tools = options.pop("tools", None)
            return await client.chat(tools=tools).send("?", **options)

    async def chat_stream(self, **options: Any) -> Any:
        async with AsyncClient(self.model) as client:
            tools = options.pop("tools", None)
            async with client.chat(tools=tools).stream("?", **options) as stream:
                async for _ in stream:
                    pass
                return stream.reply

    async def sync_generate(self, **options: Any) -> Any:
        with Client(self.model) as client:
            return client.generate("?", **options)

    async def sync_stream(self, **options: Any) -> Any:
        with Client(self.model) as client, client.stream("?", **options) as stream:
            list(stream)
            return stream.reply

    async def sync_start(self, **options: Any) -> Any:
        with Client(self.model) as client:
            return client.start("?", **options).result()

    async def sync_chat_send(self, **options: Any) -> Any:
        with Client(self.model) as client:
            return client.chat(tools=options.pop("tools", None)).send("?", **options)

    async def sync_chat_stream(self, **options: Any) -> Any:
        with Client(self.model) as client:
            chat = client.chat(tools=options.pop("tools", None))
            with chat.stream("?", **options) as stream:
                list(stream)
                return stream.reply


VERBS = [name for name in vars(Faces) if not name.startswith("_")]
verbs = pytest.mark.parametrize("verb", VERBS)


@verbs
async def test_an_invalid_answer_goes_back_to_the_model_and_a_valid_one_is_the_output(
    verb: str,
) -> None:
    faces = Faces(call("price", item="rope"), say(BAD), say(GOOD))
    reply = await getattr(faces, verb)(output=Invoice, tools=[price])
    assert reply.output == INVOICE
    assert [record.rejected for record in reply.rounds] == [False, True, False]
    roles = [message.role for message in reply.messages]
    assert roles == ["user", "assistant", "tool", "assistant"]
    feedback = faces.model.requests[2].messages[-1]
    assert feedback.role == "user"
    assert all(error in feedback.text for error in ERRORS)


@verbs
async def test_an_answer_that_stays_invalid_raises(verb: str) -> None:
    faces = Faces(say(BAD), say("none"), say(BAD))
    with pytest.raises(OutputInvalid) as caught:
        await getattr(faces, verb)(output=Invoice)
    assert (caught.value.text, caught.value.errors) == (BAD, ERRORS)
    assert str(caught.value) == f"the answer is not valid after 3 attempts: {'; '.join(ERRORS)}"


@verbs
async def test_the_method_and_the_retries_are_options_of_a_call(verb: str) -> None:
    faces = Faces(call("final_answer", number="7", total=1))
    with pytest.raises(OutputInvalid, match="the answer is not valid: number: must start with A"):
        await getattr(faces, verb)(output=Invoice, output_method="tool", output_retries=0)


@verbs
async def test_without_a_type_the_output_is_none(verb: str) -> None:
    assert (await getattr(Faces("Hi."), verb)()).output is None


async def answer(*script: Any, **options: Any) -> Any:
    return await Faces(*script).generate(**options)


def positive(value: Invoice) -> None:
    if value.total > 10:
        raise ToolError("the total is too high")


async def positive_later(value: Invoice) -> None:
    positive(value)


def positive_value(value: Invoice) -> None:
    assert value.total <= 10, "the total is too high"


@pytest.mark.parametrize("validator", [positive, positive_later, positive_value])
async def test_a_validator_sends_its_text_to_the_model(validator: Callable[[Any], Any]) -> None:
    faces = Faces(GOOD, '{"number": "A8", "total": 5}')
    reply = await faces.generate(output=Invoice, output_validator=validator)
    assert reply.output.number == "A8"
    assert "the total is too high" in faces.model.requests[1].messages[-1].text


async def test_a_validator_may_return_another_value() -> None:
    assert (await answer("7", output=int, output_validator=lambda value: value * 2)).output == 14


async def test_any_other_error_of_a_validator_is_raised() -> None:
    def broken(value: Any) -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError, match="bug"):
        await answer("7", output=int, output_validator=broken)


async def test_a_validator_needs_a_type() -> None:
    with pytest.raises(ConfigError, match="output_validator needs output="):
        await answer("7", output_validator=positive)


async def test_a_type_and_a_raw_schema_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        await answer("7", output=int, response_schema={"type": "object"})


async def test_calls_for_the_caller_leave_no_output() -> None:
    reply = await answer(call("price", item="a"), output=int, tools=[price], execute_tools=False)
    assert (reply.stop_reason, len(reply.pending)) == ("calls", 1)
    with pytest.raises(OutputInvalid, match="stop_reason 'calls'"):
        _ = reply.output


async def test_an_answer_that_the_output_limit_cut_leaves_no_output() -> None:
    reply = await answer(say("[1, 2", finish="length"), output=list[int])
    assert reply.stop_reason == "length"
    with pytest.raises(OutputInvalid) as caught:
        _ = reply.output
    assert caught.value.text == "[1, 2"


async def test_the_last_answer_after_the_round_limit_is_validated_and_retried() -> None:
    faces = Faces(call("price", item="a"), say(""), say("7"))
    reply = await faces.generate(output=int, tools=[price], max_rounds=1)
    assert (reply.output, reply.stop_reason) == (7, "max_rounds")
    assert faces.model.requests[2].tools == ()


@pytest.mark.parametrize("method", ["native", "tool", "prompt"])
async def test_a_forced_tool_is_called_before_the_answer(method: str) -> None:
    final = call("final_answer", value=7) if method == "tool" else say("7")
    faces = Faces(call("price", item="a"), final)
    reply = await faces.generate(
        output=int, tools=[price], tool_choice="price", output_method=method
    )
    assert (reply.output, [made.name for made in reply.calls]) == (7, ["price"])
    first = faces.model.requests[0]
    assert [getattr(each, "name", "") for each in first.tools] == ["price"]


async def test_the_final_tool_is_never_a_call_of_the_reply() -> None:
    made = calls(call("price", item="a"), call("final_answer", value=1))
    faces = Faces(made, calls(call("final_answer", value=7), call("final_answer", value=8)))
    reply = await faces.generate(output=int, tools=[price], output_method="tool")
    assert (reply.output, [each.name for each in reply.calls]) == (7, ["price"])
    assert "final_answer" not in str(reply.messages)


async def test_a_tool_of_the_user_with_the_name_of_the_final_tool_stays_a_tool() -> None:
    @tool
    def final_answer(text: str) -> str:
        """Says it."""
        return "said"

    faces = Faces(call("final_answer", text="x"), call("final_answer_", value=7))
    reply = await faces.generate(output=int, tools=[final_answer], output_method="tool")
    assert (reply.output, [each.name for each in reply.calls]) == (7, ["final_answer"])


async def test_a_chat_continues_after_a_typed_answer_without_its_rejected_ones() -> None:
    model = ScriptedModel([say("many"), say("7"), say("Seven.")])
    async with AsyncClient(model) as client:
        chat = client.chat()
        assert (await chat.send("How many?", output=int)).output == 7
        assert (await chat.send("In words?")).text == "Seven."
    texts = [message.text for message in model.requests[2].messages]
    assert texts == ["How many?", "7", "In words?"]


async def test_a_rejected_answer_is_an_event_and_a_status_of_the_stream() -> None:
    async with (
        AsyncClient(ScriptedModel([BAD, GOOD])) as client,
        client.stream("?", output=Invoice) as stream,
    ):
        events = [event async for event in stream]
    [rejected] = [event for event in events if isinstance(event, OutputRejected)]
    assert (rejected.round, rejected.errors, rejected.type) == (1, ERRORS, "control")
    said = [event.message for event in events if isinstance(event, Status)]
    assert said == ["The answer is not valid. Asking again..."]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == BAD + GOOD


async def collected(values: AsyncIterator[Any]) -> list[Any]:
    return [value async for value in values]


async def test_partial_outputs_end_with_the_validated_value() -> None:
    async with (
        AsyncClient(ScriptedModel([BAD, GOOD])) as client,
        client.stream("?", output=Invoice) as stream,
    ):
        values = await collected(stream.partial_outputs())
    assert values[-1] == INVOICE
    assert values[0].total is None
    assert len(values) > 3


def test_partial_outputs_of_the_sync_client_are_the_same() -> None:
    with (
        Client(ScriptedModel([call("final_answer", number="A1", total=2)])) as client,
        client.stream("?", output=Invoice, output_method="tool") as stream,
    ):
        values = list(stream.partial_outputs())
    assert values[-1] == Invoice(number="A1", total=2)


async def test_partial_outputs_raise_the_error_of_the_run() -> None:
    async with (
        AsyncClient(ScriptedModel([BAD])) as client,
        client.stream("?", output=Invoice, output_retries=0) as stream,
    ):
        with pytest.raises(OutputInvalid):
            await collected(stream.partial_outputs())


async def test_partial_outputs_need_a_type() -> None:
    async with AsyncClient(ScriptedModel(["Hi."])) as client, client.stream("?") as stream:
        with pytest.raises(ConfigError, match="partial_outputs needs output="):
            await collected(stream.partial_outputs())
