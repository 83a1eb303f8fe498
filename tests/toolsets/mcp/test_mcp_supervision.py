"""Servers that exit, do not start, or hang; no process is left afterwards."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.ports import free_port
from tests.toolsets.mcp.serving import TINY, appearing, over_http, starts, tiny

import windlass
from windlass import AsyncClient, ConfigError, FunctionResponse, ToolRunProgress
from windlass.testing import ScriptedModel, call
from windlass.toolsets.mcp.toolset import McpToolset

pytestmark = pytest.mark.process


@pytest.fixture
def toolset(tmp_path: Path) -> Iterator[McpToolset]:
    with windlass.mcp(tiny(tmp_path)) as toolset:
        yield toolset


async def response(
    toolset: McpToolset, name: str, *, prefix: str = "tiny__", **arguments: Any
) -> FunctionResponse:
    script = [call(f"{prefix}{name}", **arguments), "done"]
    async with AsyncClient(ScriptedModel(script)) as client:
        (result,) = (await client.generate("go", tools=[toolset])).results
    return result


PREFIX = "tiny__"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


async def test_an_exited_server_is_restarted_and_its_tools_work_again(
    toolset: McpToolset, tmp_path: Path
) -> None:
    died = await response(toolset, "dies")
    assert died.error == "The MCP server 'tests/tiny' exited during the call, effect unknown."
    assert (await response(toolset, "add", a=1, b=2)).output == "3"
    assert len(starts(tmp_path)) == 2


async def test_while_a_server_is_down_calls_report_it_at_once(
    toolset: McpToolset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolset._calls.supervisor, "_delay", lambda failures: 3600.0)
    await response(toolset, "dies")
    await response(toolset, "dies")  # twice in a row: the next start has to wait
    down = await response(toolset, "add", a=1, b=2)
    assert down.error is not None
    assert "is not available: it exited and will be restarted shortly" in down.error
    assert "tiny__add" in {tool.name for tool in await toolset.list_tools()}


async def test_a_restarted_server_is_reconnected(tmp_path: Path) -> None:
    port = str(free_port())
    with over_http(tmp_path, port) as address:
        toolset = windlass.mcp(address, name="s", protocol="2025-11-25")
        assert (await response(toolset, "add", prefix="s__", a=1, b=2)).output == "3"
    with over_http(tmp_path, port):
        assert (await response(toolset, "add", prefix="s__", a=1, b=2)).output == "3"
        await toolset.aclose()


async def test_a_call_without_progress_times_out(tmp_path: Path) -> None:
    async with windlass.mcp(tiny(tmp_path), timeout=0.3) as toolset:
        silent = await response(toolset, "waits")
    assert silent.error == (
        f"{PREFIX}waits returned no result and reported no progress for 0.3 seconds and was"
        " cancelled, effect unknown."
    )
    assert appearing(tmp_path / "cancelled")


async def test_progress_restarts_the_timeout(tmp_path: Path) -> None:
    """The call takes longer than the timeout without progress."""
    async with windlass.mcp(tiny(tmp_path), timeout=1.5) as toolset:
        script = [call(f"{PREFIX}ticks", times=18), "done"]
        async with (
            AsyncClient(ScriptedModel(script)) as client,
            client.stream("go", tools=[toolset]) as stream,
        ):
            ticks = [event async for event in stream if isinstance(event, ToolRunProgress)]
    assert stream.reply.results[0].output == "ticked"
    assert len(ticks) == 18


def test_a_missing_command_is_named() -> None:
    with pytest.raises(ConfigError, match=r"cannot be started: .*: no-such-command"):
        windlass.mcp("no-such-command --token SECRET").list()


def test_an_error_quotes_the_output_of_a_server_that_does_not_start(tmp_path: Path) -> None:
    broken = [sys.executable, "-c", "import sys; sys.exit('the disk is full')"]
    with pytest.raises(ConfigError, match="exited before it answered; its output:\nthe disk"):
        windlass.mcp(broken).list()


def test_a_server_that_never_answers_times_out(tmp_path: Path) -> None:
    mute = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with pytest.raises(ConfigError, match=r"did not answer within 0\.2 seconds"):
        windlass.mcp(mute, start_timeout=0.2).list()


async def test_a_server_can_be_closed_while_it_starts(tmp_path: Path) -> None:
    program = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    toolset = windlass.mcp([sys.executable, "-c", program, str(tmp_path / "pid")])
    listing = asyncio.create_task(asyncio.to_thread(toolset.list))
    pid = int(await asyncio.to_thread(appearing, tmp_path / "pid"))
    await toolset.aclose()
    with pytest.raises(ConfigError, match="was closed while it started"):
        await listing
    assert not is_alive(pid)


def test_an_unreachable_address_does_not_leak_its_secrets() -> None:
    toolset = windlass.mcp("http://127.0.0.1:9/mcp?token=SECRET")
    with pytest.raises(ConfigError, match=r"'127\.0\.0\.1' cannot be reached") as raised:
        toolset.list()
    assert "SECRET" not in str(raised.value) + repr(toolset)


def test_a_closed_server_starts_again_when_it_is_used(tmp_path: Path) -> None:
    toolset = windlass.mcp(tiny(tmp_path))
    toolset.list()
    toolset.close()
    (first,) = starts(tmp_path)
    assert not is_alive(first)
    toolset.list()
    _, second = starts(tmp_path)
    assert is_alive(second)
    toolset.close()
    assert not is_alive(second)


@pytest.mark.parametrize("ending", ["raise SystemExit", "del toolset; import gc; gc.collect()"])
def test_an_unclosed_toolset_leaves_no_process(tmp_path: Path, ending: str) -> None:
    program = f"""
import windlass
toolset = windlass.mcp({tiny(tmp_path)!r})
toolset.list()
{ending}
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    (pid,) = starts(tmp_path)
    assert not is_alive(pid)


async def test_several_servers_are_started_at_once(tmp_path: Path) -> None:
    """Each answers only when both calls have arrived."""
    program = f"""
import sys, time
from pathlib import Path
mine, other = Path(sys.argv[1]), Path(sys.argv[2])
(mine / "here").touch()
while not (other / "here").exists():
    time.sleep(0.01)
sys.argv = ["", str(mine)]
exec(Path({str(TINY)!r}).read_text())
"""
    homes = [tmp_path / "a", tmp_path / "b"]
    for home in homes:
        home.mkdir()
    first, second = [
        windlass.mcp([sys.executable, "-c", program, str(mine), str(other)], name=mine.name)
        for mine, other in (homes, homes[::-1])
    ]
    try:
        async with AsyncClient(ScriptedModel([call("b__add", a=1, b=2), "done"])) as client:
            reply = await client.generate("go", tools=[first, second])
    finally:
        await first.aclose()
        await second.aclose()
    assert reply.results[0].output == "3"


def test_many_threads_share_one_server(tmp_path: Path) -> None:
    outputs: list[Any] = []

    def work(toolset: McpToolset, number: int) -> None:
        outputs.append(asyncio.run(response(toolset, "add", a=number, b=0)).output)

    with windlass.mcp(tiny(tmp_path)) as toolset:
        threads = [threading.Thread(target=work, args=(toolset, n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(outputs) == [str(n) for n in range(8)]
    assert len(starts(tmp_path)) == 1
