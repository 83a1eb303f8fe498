"""The executor: order, bounds, time, retries, cache, approvals, injection."""

import asyncio
import logging
import threading
from typing import Annotated, Any

import pytest
from tests.conftest import MakeClient, events_of, requests_of

from windlass import (
    Approval,
    ApprovalRequested,
    ApprovalResolved,
    Depends,
    FunctionCall,
    InlineData,
    ToolAnswer,
    ToolContext,
    ToolError,
    ToolExecutor,
    ToolJob,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
    tool,
)
from windlass.errors import StorageError
from windlass.loop.cache import ResultCache
from windlass.testing import call, calls


def ended(events: list[Any]) -> dict[str, ToolRunEnded]:
    return {e.response.id: e for e in events if isinstance(e, ToolRunEnded)}


async def no_wait(seconds: float) -> None:
    """Backoff without the time."""


# Order and bounds


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_tools_of_a_round_run_at_the_same_time(client_of: MakeClient, kind: str) -> None:
    threads, tasks = threading.Barrier(8), asyncio.Barrier(8)

    def meet_in_threads() -> str:
        threads.wait(timeout=20)
        return "met"

    async def meet_in_tasks() -> str:
        await tasks.wait()
        return "met"

    meet = tool(meet_in_threads if kind == "sync" else meet_in_tasks, name="meet")
    client = client_of([calls(*[call("meet")] * 8), "done"])
    reply = await client.generate("?", tools=[meet], timeout=30)
    assert [r.output for r in reply.results] == ["met"] * 8


async def test_no_more_than_max_parallel_tools_run_at_once(client_of: MakeClient) -> None:
    running = most = 0

    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1

    client = client_of([calls(*[call("count")] * 10), "done"])
    await client.generate("?", tools=[count], max_parallel=3)
    assert most == 3


async def test_a_serial_tool_runs_alone(client_of: MakeClient) -> None:
    running: set[int] = set()

    async def enter(n: int) -> set[int]:
        running.add(n)
        for _ in range(5):
            await asyncio.sleep(0)
        seen = set(running)
        running.discard(n)
        return seen

    @tool(serial=True)
    async def alone(n: int) -> list[int]:
        return sorted(await enter(n))

    async def together(n: int) -> list[int]:
        return sorted(await enter(n))

    turn = calls(
        call("together", n=1),
        call("together", n=2),
        call("alone", n=3),
        call("together", n=4),
        call("alone", n=5),
    )
    reply = await client_of([turn, "done"]).generate("?", tools=[alone, together])
    seen = [r.output for r in reply.results]
    assert seen[0] == [1, 2]
    assert seen[2:] == [[3], [4], [5]]


async def test_after_orders_the_calls_of_one_round(client_of: MakeClient) -> None:
    order: list[str] = []

    async def save() -> None:
        await asyncio.sleep(0)
        order.append("save")

    @tool(after=["save"])
    async def publish() -> None:
        order.append("publish")

    @tool(after=[publish], serial=True)
    async def announce() -> None:
        order.append("announce")

    turn = calls(call("announce"), call("publish"), call("save"), call("save"))
    reply = await client_of([turn, "done"]).generate("?", tools=[announce, publish, save])
    assert order == ["save", "save", "publish", "announce"]
    assert [r.name for r in reply.results] == ["announce", "publish", "save", "save"]


async def test_after_a_tool_that_was_not_called_waits_for_nothing(client_of: MakeClient) -> None:
    @tool(after=["other"])
    def it() -> str:
        return "ran"

    reply = await client_of([call("it"), "done"]).generate("?", tools=[it])
    assert reply.results[0].output == "ran"


# Time


async def test_a_tool_that_takes_too_long_gets_an_error_result(client_of: MakeClient) -> None:
    @tool(timeout=0.01)
    async def sleepy() -> None:
        await asyncio.Event().wait()

    events = await events_of(client_of([call("sleepy", id="a"), "done"]), tools=[sleepy])
    answer = ended(events)["a"]
    assert answer.outcome == "timeout"
    assert answer.effect_unknown
    assert answer.response.error == (
        "sleepy did not answer within 0.01 seconds and was stopped, effect unknown."
    )


async def test_a_sync_tool_that_hangs_is_abandoned(client_of: MakeClient) -> None:
    release = threading.Event()

    @tool(timeout=0.01)
    def stuck() -> None:
        release.wait(60)

    reply = await client_of([call("stuck"), "done"]).generate("?", tools=[stuck])
    release.set()
    assert reply.text == "done"
    assert "did not answer" in (reply.results[0].error or "")


async def test_a_tools_own_timeout_error_is_a_failure_not_its_deadline(
    client_of: MakeClient,
) -> None:
    async def upstream() -> None:
        raise TimeoutError("the database is slow")

    events = await events_of(client_of([call("upstream", id="a"), "done"]), tools=[upstream])
    assert ended(events)["a"].outcome == "error"


@pytest.mark.no_page("it is slower than this deadline")
@pytest.mark.no_wire("it may be slower than this deadline")
async def test_the_runs_deadline_stops_its_tools_and_is_a_reason(client_of: MakeClient) -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    client = client_of([calls(call("forever"), text="Let me see."), "never"])
    reply = await client.generate("?", tools=[forever], timeout=0.5)
    assert (reply.stop_reason, reply.text) == ("deadline", "Let me see.")
    assert reply.results[0].error == "stopped, effect unknown"
    assert [m.role for m in reply.messages] == ["user", "assistant", "tool"]


async def test_stopping_says_which_tools_may_have_had_an_effect(client_of: MakeClient) -> None:
    started = asyncio.Event()

    async def quick() -> str:
        return "ok"

    @tool
    async def pay() -> None:
        started.set()
        await asyncio.Event().wait()

    @tool(idempotent=True)
    async def look() -> None:
        await asyncio.Event().wait()

    @tool(serial=True)
    async def later() -> None: ...

    turn = calls(
        call("quick", id="q"), call("pay", id="p"), call("look", id="l"), call("later", id="z")
    )
    client = client_of([turn])
    run = await client.start("?", tools=[quick, pay, look, later])
    await started.wait()
    await client.stop(run.id)
    events = [e async for e in client.subscribe(run.id)]
    answers = ended(events)
    assert {k: (v.outcome, v.effect_unknown) for k, v in answers.items()} == {
        "q": ("ok", False),
        "p": ("stopped", True),
        "l": ("stopped", False),
        "z": ("not_run", False),
    }
    assert [r.id for r in run.reply.messages[-1].responses] == ["q", "p", "l", "z"]


# Retry


async def test_an_idempotent_tool_is_tried_again_with_backoff(client_of: MakeClient) -> None:
    waits: list[float] = []
    tries = 0

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    @tool(idempotent=True, retries=3)
    def flaky() -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionError("reset")
        return "there"

    client = client_of([call("flaky", id="a"), "done"], executor=ToolExecutor(sleep=wait))
    events = await events_of(client, tools=[flaky])
    assert ended(events)["a"].attempts == 3
    assert ended(events)["a"].response.output == "there"
    assert len(waits) == 2
    assert waits[0] < waits[1]
    assert sum(isinstance(e, ToolRunStarted) for e in events) == 1


@pytest.mark.parametrize(
    ("options", "error", "expected"),
    [
        ({}, ConnectionError(), 1),
        ({"idempotent": True}, ToolError("no"), 1),
        ({"idempotent": True}, ToolError("busy", retryable=True), 3),
        ({"idempotent": True}, ConnectionError(), 3),
    ],
)
async def test_only_what_may_be_repeated_is_repeated(
    client_of: MakeClient, options: Any, error: Exception, expected: int
) -> None:
    tries = 0

    @tool(**options)
    def fails() -> None:
        nonlocal tries
        tries += 1
        raise error

    client = client_of([call("fails"), "done"], executor=ToolExecutor(sleep=no_wait))
    reply = await client.generate("?", tools=[fails])
    assert tries == expected
    assert reply.results[0].error


async def test_a_call_whose_start_cannot_be_written_is_not_tried_again(
    client_of: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    written: list[str] = []

    class NoLog(ToolExecutor):
        async def execute(self, job: ToolJob) -> ToolAnswer:
            async def settled() -> None:
                written.append(job.call.id)
                raise StorageError("the disk is full")

            job.run.settled = settled
            return await super().execute(job)

    @tool(idempotent=True)
    def look() -> None:
        raise AssertionError("the tool ran")

    caplog.set_level(logging.INFO, "windlass.loop")
    client = client_of([call("look", id="a"), "done"], executor=NoLog(sleep=no_wait))
    run = await client.start("?", tools=[look])
    await asyncio.wait([run.task])
    assert written == ["a"]
    assert "Tool failed" not in caplog.text


# Cache


async def test_a_cacheable_result_is_kept_for_its_time_and_shared(client_of: MakeClient) -> None:
    now, ran = 0.0, 0

    @tool(cache=60)
    def rate(currency: str) -> int:
        nonlocal ran
        ran += 1
        return ran

    executor = ToolExecutor(cache=ResultCache(clock=lambda: now))
    client = client_of(
        lambda r: "done" if r.messages[-1].role == "tool" else call("rate", currency="EUR"),
        executor=executor,
    )

    async def ask() -> ToolAnswer:
        return (await client.generate("?", tools=[rate])).rounds[0].answers[0]

    first, second = await ask(), await ask()
    assert (first.response.output, first.cached) == (1, False)
    assert (second.response.output, second.cached) == (1, True)
    assert second.response.id != first.response.id
    now = 61.0
    assert (await ask()).response.output == 2


async def test_identical_calls_at_once_share_one_execution(client_of: MakeClient) -> None:
    ran = 0

    @tool(cache=60)
    async def rate(currency: str) -> str:
        nonlocal ran
        ran += 1
        await asyncio.sleep(0)
        return currency

    turn = calls(*[call("rate", currency="EUR")] * 5, call("rate", currency="USD"))
    reply = await client_of([turn, "done"]).generate("?", tools=[rate])
    assert ran == 2
    assert [r.output for r in reply.results] == ["EUR"] * 5 + ["USD"]
    assert len({r.id for r in reply.results}) == 6


async def test_failures_are_not_cached(client_of: MakeClient) -> None:
    ran = 0

    @tool(cache=60)
    def rate() -> str:
        nonlocal ran
        ran += 1
        if ran == 1:
            raise ToolError("not yet")
        return "now"

    reply = await client_of([call("rate"), call("rate"), "done"]).generate("?", tools=[rate])
    assert [r.output for r in reply.results] == [None, "now"]


async def test_a_time_out_is_not_cached(client_of: MakeClient) -> None:
    ran = 0

    @tool(cache=60, timeout=0.5)
    async def rate() -> str:
        nonlocal ran
        ran += 1
        if ran == 1:
            await asyncio.Event().wait()
        return "now"

    reply = await client_of([call("rate"), call("rate"), "done"]).generate("?", tools=[rate])
    assert [r.output for r in reply.results] == [None, "now"]


async def test_a_cached_result_that_depends_on_the_run_stays_in_it(client_of: MakeClient) -> None:
    users = iter(["ada", "bob"])

    def user() -> str:
        return next(users)

    @tool(cache=60)
    def mine(user: Annotated[str, Depends(user)]) -> str:
        return f"{user}'s"

    client = client_of(
        lambda r: "done" if len(r.messages) > 4 else calls(call("mine"), call("mine"))
    )
    outputs = [
        {r.output for r in (await client.generate("?", tools=[mine])).results} for _ in range(2)
    ]
    assert outputs == [{"ada's"}, {"bob's"}]


async def test_one_run_that_stops_leaves_a_shared_execution_to_the_others(
    client_of: MakeClient,
) -> None:
    release, ran = asyncio.Event(), 0

    @tool(cache=60)
    async def slow() -> str:
        nonlocal ran
        ran += 1
        await release.wait()
        return "there"

    client = client_of(lambda r: "done" if r.messages[-1].role == "tool" else call("slow"))
    first = await client.start("?", tools=[slow])
    second = await client.start("?", tools=[slow])
    while not ran or second.phase != "executing_tools":
        await asyncio.sleep(0)
    await first.stop()
    release.set()
    reply = await second.result()
    assert (ran, reply.results[0].output) == (1, "there")


# Approval


@tool(approve=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


async def test_a_hook_can_approve_a_call(client_of: MakeClient) -> None:
    asked: list[FunctionCall] = []

    def hook(call: FunctionCall) -> bool:
        asked.append(call)
        return True

    client = client_of([call("pay", amount=3), "done"])
    reply = await client.generate("?", tools=[pay], approve=hook)
    assert (asked[0].arguments, reply.results[0].output) == ({"amount": 3}, "paid 3")


async def _maybe(call: FunctionCall) -> Any:
    return "yes"


def _crash(call: FunctionCall) -> bool:
    raise RuntimeError


@pytest.mark.parametrize(
    "hook",
    [None, lambda _: False, lambda _: 1, lambda _: None, _maybe, _crash],
    ids=["nobody", "no", "a number", "nothing", "a word", "a crash"],
)
async def test_only_an_explicit_approval_runs_the_call(client_of: MakeClient, hook: Any) -> None:
    client = client_of([call("pay", amount=3), "done"])
    reply = await client.generate("?", tools=[pay], approve=hook)
    assert reply.rounds[0].answers[0].outcome == "denied"
    assert (reply.results[0].error or "").startswith("The call was denied")


async def test_the_arguments_may_be_edited_before_the_approval(client_of: MakeClient) -> None:
    client = client_of([call("pay", amount=300), "done"])
    hook = lambda _: Approval(True, arguments={"amount": 3})  # noqa: E731
    reply = await client.generate("?", tools=[pay], approve=hook)
    assert reply.results[0].output == "paid 3"


async def test_edited_arguments_are_validated_too(client_of: MakeClient) -> None:
    client = client_of([call("pay", amount=300), "done"])
    hook = lambda _: Approval(True, arguments={"amount": "lots"})  # noqa: E731
    reply = await client.generate("?", tools=[pay], approve=hook)
    assert reply.rounds[0].answers[0].outcome == "invalid_arguments"


async def test_a_person_answers_a_run_from_outside(client_of: MakeClient) -> None:
    client = client_of([calls(call("pay", amount=1, id="a"), call("pay", amount=2, id="b")), "ok"])
    run = await client.start("?", tools=[pay])
    events: list[Any] = []
    async for event in client.subscribe(run.id):
        events.append(event)
        if isinstance(event, ApprovalRequested):
            yes = event.call.id == "a"
            assert await client.approve(run.id, event.call.id, yes, reason="too much")
    reply = await run.result()
    assert [r.output for r in reply.results] == ["paid 1", None]
    assert reply.results[1].error == "The call was denied: too much."
    assert [e.approved for e in events if isinstance(e, ApprovalResolved)] == [True, False]
    assert not run.approve("a")


async def test_an_approval_without_a_decision_times_out_as_denied(client_of: MakeClient) -> None:
    client = client_of([call("pay", amount=1), "ok"])
    run = await client.start("?", tools=[pay], approval_timeout=0.01)
    reply = await run.result()
    assert reply.results[0].error == "The call was denied: the approval timed out."


# Injection and progress


async def test_a_dependency_is_resolved_once_per_run_and_hidden_from_the_model(
    client_of: MakeClient,
) -> None:
    opened: list[str] = []

    def database() -> str:
        opened.append("db")
        return "db"

    def query(sql: str, db: Annotated[str, Depends(database)]) -> str:
        return f"{db}: {sql}"

    client = client_of(
        [calls(call("query", sql="a"), call("query", sql="b")), call("query", sql="c"), "done"]
    )
    reply = await client.generate("?", tools=[query])
    assert [r.output for r in reply.results] == ["db: a", "db: b", "db: c"]
    assert opened == ["db"]
    assert "db" not in requests_of(client)[0].tools[0].parameters["properties"]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_tool_reports_progress_and_knows_its_call(client_of: MakeClient, kind: str) -> None:
    def work(context: ToolContext) -> str:
        context.progress(0.5, "half way")
        return context.call_key

    async def work_async(context: ToolContext) -> str:
        return work(context)

    worker = tool(work if kind == "sync" else work_async, name="work")
    client = client_of([call("work", id="a"), "done"])
    run = await client.start("?", tools=[worker])
    events = [e async for e in client.subscribe(run.id)]
    kinds = [type(e) for e in events]
    report = next(e for e in events if isinstance(e, ToolRunProgress))
    assert (report.call_id, report.progress, report.message) == ("a", 0.5, "half way")
    assert kinds.index(ToolRunStarted) < kinds.index(ToolRunProgress) < kinds.index(ToolRunEnded)
    assert run.reply.results[0].output == f"{run.id}:a"


# Results


async def test_values_of_every_kind_become_json(client_of: MakeClient) -> None:
    import dataclasses
    import datetime
    import enum

    import pydantic

    class Colour(enum.Enum):
        RED = "red"

    @dataclasses.dataclass
    class Point:
        x: int

    class Book(pydantic.BaseModel):
        title: str

    def everything() -> dict[Any, Any]:
        return {
            "when": datetime.date(2026, 1, 2),
            "colour": Colour.RED,
            "point": Point(1),
            "book": Book(title="T"),
            "tags": {"a"},
            7: object.__new__(type("Odd", (), {"__str__": lambda _: "odd"})),
        }

    reply = await client_of([call("everything"), "done"]).generate("?", tools=[everything])
    assert reply.results[0].output == {
        "when": "2026-01-02",
        "colour": "red",
        "point": {"x": 1},
        "book": {"title": "T"},
        "tags": ["a"],
        "7": "odd",
    }


async def test_a_value_that_contains_itself_is_a_failure_not_a_crash(
    client_of: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    def loop() -> list[Any]:
        value: list[Any] = []
        value.append(value)
        return value

    reply = await client_of([call("loop"), "done"]).generate("?", tools=[loop])
    assert reply.results[0].error
    assert "the result contains itself" in caplog.text
    assert len(caplog.text.splitlines()) < 100


async def test_an_undecodable_file_name_reaches_the_model_with_a_replacement_character(
    client_of: MakeClient,
) -> None:
    def files() -> list[str]:
        return ["\udcff.txt"]

    client = client_of([call("files"), "done"])
    await client.generate("?", tools=[files])
    assert requests_of(client)[1].messages[-1].responses[0].text == '["\ufffd.txt"]'


@pytest.mark.no_page("it is given text only")
async def test_media_are_parts_of_the_result(client_of: MakeClient) -> None:
    image = InlineData(b"\x89PNG", "image/png")

    def plot() -> Any:
        return ["see", image]

    reply = await client_of([call("plot"), "done"]).generate("?", tools=[plot])
    assert reply.results[0].parts == (image,)
    assert reply.results[0].output == ["see", "[image/png, 4 bytes]"]


# A user's own executor


async def test_execution_can_be_wrapped(client_of: MakeClient) -> None:
    seen: list[str] = []

    class Metered(ToolExecutor):
        async def execute(self, job: ToolJob) -> ToolAnswer:
            if len(seen) == 1:
                raise ToolError("rate limit: one call a minute")
            seen.append(job.call.name)
            return await super().execute(job)

    client = client_of(
        [call("pay", amount=1), call("pay", amount=2), "done"],
        executor=Metered(),
        approve=lambda _: True,
    )
    reply = await client.generate("?", tools=[pay])
    assert seen == ["pay"]
    assert [r.output for r in reply.results] == ["paid 1", None]
    assert reply.results[1].error == "rate limit: one call a minute"


async def test_a_wrapper_that_crashes_is_a_failed_call(client_of: MakeClient) -> None:
    class Broken(ToolExecutor):
        async def execute(self, job: ToolJob) -> ToolAnswer:
            raise KeyError("oops")

    client = client_of([call("pay", amount=1), "done"], executor=Broken())
    reply = await client.generate("?", tools=[pay])
    assert reply.results[0].error == "pay failed with an internal error."


# Exceptions for the model, and log lines of a call.


def broken_database() -> str:
    raise ConnectionError("Database connection failed")


def silent() -> str:
    raise ValueError


@pytest.mark.parametrize(
    ("tools", "options", "text"),
    [
        ([broken_database], {}, "broken_database failed with an internal error."),
        ([broken_database], {"expose_errors": True}, "Database connection failed"),
        ([tool(broken_database, expose_errors=True)], {}, "Database connection failed"),
        (
            [tool(broken_database, expose_errors=False)],
            {"expose_errors": True},
            "broken_database failed with an internal error.",
        ),
        ([tool(silent, name="broken_database")], {"expose_errors": True}, "ValueError"),
    ],
)
async def test_the_text_of_an_exception_reaches_the_model_only_if_that_is_asked_for(
    client_of: MakeClient,
    tools: list[Any],
    options: Any,
    text: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for given, own in ((options, {}), ({}, options)):
        client = client_of([call("broken_database"), "Sorry."], **own)
        reply = await client.generate("?", tools=tools, **given)
        assert reply.results[0].error == text
        assert reply.results[0].text == f'{{"error":"{text}"}}'
        assert "Traceback" in caplog.text
    (answer,) = await client_of([]).execute(
        [FunctionCall("broken_database")], tools=tools, **options
    )
    assert answer.error == text


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
async def test_a_tool_that_starts_is_logged_with_its_call_and_its_arguments_only_to_debug(
    client_of: MakeClient, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    seen: list[str] = []

    @tool
    async def test_tool(message: str) -> str:
        seen.append(caplog.records[-1].getMessage())
        return message

    caplog.set_level(level, "windlass.loop")
    client = client_of([call("test_tool", message="secret"), "x"])
    reply = await client.generate("?", tools=[test_tool])
    assert seen == ["test_tool executed"]  # before the function runs
    started = next(r for r in caplog.records if r.getMessage() == "test_tool executed")
    fields = vars(started)
    assert (started.levelname, fields["tool"]) == ("INFO", "test_tool")
    assert fields["tool_call_id"] == reply.calls[0].id
    assert fields.get("arguments") == ({"message": "secret"} if level == logging.DEBUG else None)


@pytest.mark.no_page("an unknown name is an error of the page")
async def test_a_call_that_never_starts_has_no_line_of_a_start(
    client_of: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "windlass.loop")
    client = client_of([call("broken_database", town="x"), call("none"), "Sorry."])
    await client.generate("?", tools=[broken_database])
    assert not [r for r in caplog.records if r.getMessage().endswith(" executed")]
