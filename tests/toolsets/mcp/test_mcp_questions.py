"""A server's question reaches only the run that caused it, and so does the answer."""

import asyncio
import itertools
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.toolsets.mcp.serving import appearing

import windlass
from windlass import Approval, AsyncClient, FunctionCall, Message, Reply
from windlass.testing import ScriptedModel, call
from windlass.toolsets.mcp.sampling import Sampled
from windlass.toolsets.mcp.toolset import McpToolset

pytestmark = pytest.mark.process

SERVER = Path(__file__).parent / "asking_server.py"
USERS = ("ada", "bob")
STEPS = ("start", "ask", "end")
INTERLEAVINGS = 50


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[McpToolset]:
    command = [sys.executable, "-I", "-S", str(SERVER), str(tmp_path)]
    with windlass.mcp(command, name="s", state_dir=tmp_path) as toolset:
        yield toolset


class User:
    """One user with runs of their own, who answers questions with their own secret."""

    def __init__(self, name: str, toolset: McpToolset, directory: Path) -> None:
        self.name, self._toolset, self._directory = name, toolset, directory
        self.asked: list[str] = []
        self._run: asyncio.Task[Reply] | None = None

    async def step(self, step: str, key: str) -> None:
        match step:
            case "start":
                self._run = asyncio.create_task(self._generate(key))
                await self._wrote(f"started-{key}")
            case "ask":
                (self._directory / f"ask-{key}").touch()
                await self._wrote(f"answered-{key}")
            case "end":
                (self._directory / f"end-{key}").touch()
                assert self._run is not None
                await self._run
            case _:
                assert self._run is not None
                self._run.cancel()
                await asyncio.wait([self._run])

    def answer(self, key: str) -> dict[str, Any]:
        return json.loads((self._directory / f"answered-{key}").read_text())

    async def _generate(self, key: str) -> Reply:
        script = [call("s__ask", name=key), "done"]
        async with AsyncClient(ScriptedModel(script), approve=self._approve) as client:
            return await client.generate("go", tools=[self._toolset])

    def _approve(self, question: FunctionCall) -> Approval:
        assert isinstance(question.arguments, dict)
        self.asked.append(question.arguments["message"])
        return Approval(True, {"secret": f"secret of {self.name}"})

    async def _wrote(self, file: str) -> None:
        await asyncio.to_thread(appearing, self._directory / file)


def orders() -> list[list[tuple[str, str]]]:
    """All orders of the steps of two calls."""
    first = [(USERS[0], step) for step in STEPS]
    second = [(USERS[1], step) for step in STEPS]
    found: list[list[tuple[str, str]]] = []
    for places in itertools.combinations(range(6), 3):
        left, right = iter(first), iter(second)
        found.append([next(left) if at in places else next(right) for at in range(6)])
    return found


def alone(order: list[tuple[str, str]], user: str) -> bool:
    """Whether only this user's call runs when it asks."""
    running: set[str] = set()
    for who, step in order:
        if (who, step) == (user, "ask"):
            return running == {user}
        if step == "start":
            running.add(who)
        elif step == "end":
            running.discard(who)
    raise AssertionError


async def test_questions_and_answers_of_two_users_never_cross(
    asking: McpToolset, tmp_path: Path
) -> None:
    chosen = random.Random(22)
    every = orders()
    users = {name: User(name, asking, tmp_path) for name in USERS}
    declined = accepted = 0
    for number in range(INTERLEAVINGS):
        order = every[number] if number < len(every) else chosen.choice(every)
        for who, step in order:
            await users[who].step(step, f"{who}-{number}")
        for user in users.values():
            said = user.answer(f"{user.name}-{number}")
            if alone(order, user.name):
                assert said["content"] == {"secret": f"secret of {user.name}"}, order
                accepted += 1
            else:
                assert said == {"action": "decline"}, order
                declined += 1
    for user in users.values():
        assert user.asked
        assert all(question.startswith(user.name) for question in user.asked)
    assert accepted
    assert declined


async def test_a_question_of_a_cancelled_call_reaches_no_one_else(
    asking: McpToolset, tmp_path: Path
) -> None:
    ada, bob = (User(name, asking, tmp_path) for name in USERS)
    await ada.step("start", "ada-0")
    await ada.step("cancel", "ada-0")
    await bob.step("start", "bob-0")
    await ada.step("ask", "ada-0")  # the server ignored the cancellation
    assert ada.answer("ada-0") == {"action": "decline"}
    assert not bob.asked
    await bob.step("ask", "bob-0")  # could be ada's as well
    assert bob.answer("bob-0") == {"action": "decline"}
    await bob.step("end", "bob-0")


async def test_a_question_without_any_call_is_declined(asking: McpToolset, tmp_path: Path) -> None:
    ada = User("ada", asking, tmp_path)
    await ada.step("start", "ada-0")
    await ada.step("cancel", "ada-0")
    await ada.step("ask", "ada-0")
    assert ada.answer("ada-0") == {"action": "decline"}
    assert not ada.asked


@pytest.fixture
def able(tmp_path: Path) -> Iterator[McpToolset]:
    """The same server, whose client has roots, a model, and a tool for resources."""

    async def sample(messages: tuple[Message, ...], max_tokens: int) -> Sampled:
        return Sampled(f"answer to {messages[-1].text} in {max_tokens}", "fast", 40)

    command = [sys.executable, "-I", "-S", str(SERVER), str(tmp_path)]
    with windlass.mcp(
        command,
        name="s",
        state_dir=tmp_path,
        roots=[tmp_path],
        sampling=sample,
        sampling_tokens=60,
        read_resources=True,
    ) as toolset:
        yield toolset


async def test_a_model_answers_a_server_after_an_approval_and_within_a_budget(
    able: McpToolset, tmp_path: Path
) -> None:
    ada = User("ada", able, tmp_path)
    names = ["sample-0", "sample-1", "sample-2"]
    for name in names:
        for step in ("ask", "end"):
            (tmp_path / f"{step}-{name}").touch()
    asked: list[Any] = []

    def approve(question: FunctionCall) -> bool:
        asked.append((question.name, question.arguments))
        return True

    script = [*(call("s__ask", name=name) for name in names), "done"]
    async with AsyncClient(ScriptedModel(script), approve=approve) as client:
        await client.generate("go", tools=[able])
    first, second, third = (ada.answer(name) for name in names)
    assert first["content"]["text"] == "answer to sample-0? in 50"
    assert second["content"]["text"] == "answer to sample-1? in 20"
    assert "no tokens left" in third["message"]
    assert [name for name, _ in asked] == ["s__ask:sampling"] * 2
    assert asked[0][1]["messages"] == [{"role": "user", "text": "sample-0?"}]


async def test_a_declined_request_for_a_model_is_refused(able: McpToolset, tmp_path: Path) -> None:
    for step in ("ask", "end"):
        (tmp_path / f"{step}-sample-0").touch()
    script = [call("s__ask", name="sample-0"), "done"]
    async with AsyncClient(ScriptedModel(script), approve=lambda question: False) as client:
        await client.generate("go", tools=[able])
    assert "declined" in User("ada", able, tmp_path).answer("sample-0")["message"]


async def test_a_server_learns_its_roots_and_the_model_reads_its_resources(
    able: McpToolset, tmp_path: Path
) -> None:
    for step in ("ask", "end"):
        (tmp_path / f"{step}-roots").touch()
    script = [call("s__ask", name="roots"), call("s__read_resource", uri="x://link"), "done"]
    async with AsyncClient(ScriptedModel(script)) as client:
        reply = await client.generate("go", tools=[able])
    (root,) = User("ada", able, tmp_path).answer("roots")["roots"]
    assert root["uri"] == tmp_path.as_uri()
    assert reply.results[1].output == {"uri": "x://link", "text": "the text of x://link"}
    assert able.instructions == "Ask politely."
