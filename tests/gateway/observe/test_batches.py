"""Counting and logging of many requests, done together."""

import asyncio
import logging
import threading

import pytest
from tests.support.asgi import post
from tests.support.serving import config_of

from windlass.gateway import create_app
from windlass.gateway.config import ModelConfig
from windlass.gateway.observe.batches import DELAY, Batcher
from windlass.testing import ScriptedModel


def test_without_an_event_loop_an_item_is_handled_at_once() -> None:
    handled: list[int] = []
    batch = Batcher(handled.append)
    batch.add(1)
    assert handled == [1]


async def test_items_are_handled_in_order_a_moment_after_the_first() -> None:
    handled: list[int] = []
    batch = Batcher(handled.append)
    batch.add(1)
    batch.add(2)
    assert not handled
    await passed(handled, 2)
    assert handled == [1, 2]
    batch.add(3)
    batch.flush()
    assert handled == [1, 2, 3]
    batch.add(4)
    await passed(handled, 4)


async def passed(handled: list[int], count: int) -> None:
    """Waits until this many items are handled."""
    async with asyncio.timeout(60):
        while len(handled) < count:
            await asyncio.sleep(DELAY / 5)


async def test_threads_that_flush_at_once_handle_each_item_once() -> None:
    handled: list[int] = []
    batch = Batcher(handled.append)
    for number in range(10_000):
        batch.add(number)
    threads = [threading.Thread(target=batch.flush) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(handled) == list(range(10_000))


async def test_a_stopped_gateway_has_logged_and_counted_everything(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = create_app(
        config_of(ModelConfig(name="m", target="scripted/m")),
        models={"m": ScriptedModel("Hello.")},
    )
    body = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'
    with caplog.at_level(logging.INFO, "windlass.gateway.access"):
        answer = await post(app, body)
        await app.gateway.aclose()
    assert answer.status == 200
    [line] = [each for each in caplog.records if each.name == "windlass.gateway.access"]
    assert line.getMessage() == "POST /v1/chat/completions 200"
    counted = app.gateway.metrics._instruments.runs.labels("m", "answer")._value.get()
    assert counted == 1
