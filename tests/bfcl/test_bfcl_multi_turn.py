"""BFCL's base tasks, driven by the real loop over a model that only writes text.

Every fourth of the 200; `make bfcl` takes them all.
"""

import json
from typing import Any

import pytest
from tests.bfcl.data import Task, exact, tasks
from tests.bfcl.worlds import World, expected
from tests.support.thoroughness import WHOLE_BFCL

from windlass import AsyncClient, Reply
from windlass.emulation.model import EmulatedModel
from windlass.emulation.parser import DEFAULT_FORMAT, render_calls
from windlass.testing import ScriptedModel, say

pytestmark = pytest.mark.sweep

ANSWER = "That is done."
SAMPLE = tasks() if WHOLE_BFCL else tasks()[::4]


@pytest.mark.parametrize("task", SAMPLE, ids=lambda task: task.id)
async def test_a_task_ends_in_the_state_of_its_reference_calls(task: Task) -> None:
    world = World(task)
    replies = await _blocking(task, world)
    _check(task, world, replies)


@pytest.mark.parametrize("task", SAMPLE[::10], ids=lambda task: task.id)
async def test_a_streamed_task_ends_in_the_same_state(task: Task) -> None:
    world = World(task)
    replies = await _streamed(task, world)
    _check(task, world, replies)


async def _blocking(task: Task, world: World) -> list[Reply]:
    async with AsyncClient(_model(world)) as client:
        chat = client.chat(tools=world.tools, max_rounds=2, on_limit="error")
        return [await chat.send(prompt) for prompt in task.prompts]


async def _streamed(task: Task, world: World) -> list[Reply]:
    replies: list[Reply] = []
    async with AsyncClient(_model(world)) as client:
        chat = client.chat(tools=world.tools, max_rounds=2, on_limit="error")
        for prompt in task.prompts:
            async with chat.stream(prompt) as stream:
                text = "".join([piece async for piece in stream.text_deltas()])
            assert text.strip() == ANSWER
            replies.append(stream.reply)
    return replies


def _model(world: World) -> EmulatedModel:
    """A model that writes all gold calls of a turn in one text, then answers."""
    texts = [
        text
        for turn in world.gold
        for text in (render_calls(turn, DEFAULT_FORMAT), ANSWER)
        if text  # a turn may need no call
    ]
    return EmulatedModel(ScriptedModel([say(text, pieces=3) for text in texts]))


def _check(task: Task, world: World, replies: list[Reply]) -> None:
    for turn, reply in zip(world.gold, replies, strict=True):
        assert reply.stop_reason == "answer"
        assert reply.text.strip() == ANSWER
        assert exact(reply.calls) == exact(turn)
        assert [result.id for result in reply.results] == [call.id for call in reply.calls]
    results = [result for reply in replies for result in reply.results]
    assert len({result.id for result in results}) == len(results)
    outputs, state = expected(task)
    assert world.state == state
    for result, output in zip(results, outputs, strict=True):
        assert result.error is None
        if "mpf(" not in output:  # a number of mpmath, which JSON cannot represent
            assert _written(result.output) == output


def _written(output: Any) -> str:
    """A result as BFCL's runner prints it."""
    if isinstance(output, str):
        return output
    return json.dumps(output) if isinstance(output, dict) else str(output)
