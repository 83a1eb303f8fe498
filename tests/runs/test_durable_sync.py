"""The sync client with a log, and the costs that a client without one avoids."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.forked import ROOT

from windlass import Client, tool
from windlass.errors import RunNotFound
from windlass.events import ApprovalRequested
from windlass.testing import Gate, ScriptedModel, call, say, slow


@tool(approve=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


@tool
def weather(city: str) -> str:
    """The weather."""
    return f"sunny in {city}"


def client_on(path: Path, *script: object) -> Client:
    return Client(ScriptedModel(list(script)), tools=[weather, pay], log=path)  # type: ignore[arg-type]


@pytest.fixture
def second(path: Path) -> Iterator[Client]:
    with client_on(path) as client:
        yield client


def test_a_sync_run_is_found_again_with_the_same_reply(path: Path, second: Client) -> None:
    with client_on(path, call("weather", city="Paris"), say("Sunny.")) as client:
        reply = client.generate("Weather?")
    [run] = second.runs()
    assert (run.id, run.phase, run.stop_reason) == (reply.run_id, "ended", "answer")
    assert run.result() == reply


def test_a_sync_stream_is_read_again_from_any_number(path: Path, second: Client) -> None:
    with client_on(path, call("weather", city="Paris"), say("Sunny.")) as client:
        with client.stream("Weather?") as stream:
            seen = list(stream)
        assert list(client.subscribe(stream.run_id)) == seen
    for after in range(len(seen)):
        assert list(second.subscribe(stream.run_id, after)) == seen[after:]


def test_a_sync_run_is_followed_and_stopped_from_elsewhere(path: Path, second: Client) -> None:
    with client_on(path, slow("never", Gate())) as client:
        run = client.start("Hello?")
        reader = second.subscribe(run.id)
        assert next(reader).seq == 1
        second.stop(run.id)
        assert list(reader)[-1].done
        assert run.stop_reason == "stopped"
        assert second.runs()[0].result().stop_reason == "stopped"
        second.stop(run.id)


def test_a_sync_call_is_decided_about_from_elsewhere(path: Path, second: Client) -> None:
    with client_on(path, call("pay", amount=1), say("done")) as client:
        run = client.start("Pay!")
        for event in second.subscribe(run.id):
            if isinstance(event, ApprovalRequested):
                [there] = second.runs()
                assert there.approve(event.call.id, arguments={"amount": 2})
        assert run.result().results[0].output == "paid 2"


def test_a_sync_chat_continues_after_a_restart(path: Path) -> None:
    with client_on(path, "Hello.") as client:
        chat = client.chat()
        chat.send("Hi")
        before = chat.messages
    with client_on(path, "Still here.") as client:
        again = client.chat(id=chat.id)
        assert again.messages == before
        assert again.send("And now?").messages[:2] == before


def test_a_sync_client_finds_nothing_to_resume_and_no_unknown_run(second: Client) -> None:
    assert second.resume() == []
    with pytest.raises(RunNotFound):
        list(second.subscribe("run_x"))
    with pytest.raises(RunNotFound):
        second.stop("run_x")


def program(code: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.process
def test_a_client_without_a_log_imports_nothing_of_a_database() -> None:
    ran = program(
        """
        import sys
        from windlass import Client
        from windlass.testing import ScriptedModel
        with Client(ScriptedModel(["hi"])) as client:
            client.start("go").result()
        print([name for name in sys.modules if "sqlite" in name])
        """
    )
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


FORK = """
    import os, sys
    from windlass import Client, WindlassError
    from windlass.testing import ScriptedModel
    client = Client(ScriptedModel("hi"), log=sys.argv[1])
    client.generate("go")
    {between}
    child = os.fork()
    if child:
        sys.exit(os.waitpid(child, 0)[1])
    for ask in (client.runs, lambda: client.generate("go").text):
        try:
            print(ask())
        except WindlassError as error:
            print(error)
"""


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_of_a_program_that_has_the_file_open_gets_an_error_and_exits(path: Path) -> None:
    ran = program(FORK.format(between=""), path)
    said = f"{path} was opened before this process was forked: create a new client here"
    assert (ran.returncode, ran.stdout.splitlines()) == (0, [said, said])


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_of_a_program_that_has_closed_the_file_uses_it(path: Path, second: Client) -> None:
    ran = program(FORK.format(between="client.close()"), path)
    assert (ran.returncode, ran.stdout.splitlines()[1:]) == (0, ["hi"])
    assert len(second.runs()) == 2


@pytest.mark.process
@pytest.mark.parametrize("end", ["", "raise SystemExit", "del client, run"])
def test_a_program_that_does_not_close_its_client_ends_quietly_and_keeps_its_runs(
    path: Path, second: Client, end: str
) -> None:
    ran = program(
        f"""
        import sys
        from windlass import Client
        from windlass.testing import ScriptedModel
        client = Client(ScriptedModel(["hi"]), log=sys.argv[1])
        run = client.start("go")
        print(run.result().text)
        {end}
        """,
        path,
    )
    assert (ran.stdout, ran.stderr) == ("hi\n", "")
    [run] = second.runs()
    assert run.stop_reason == "answer"
