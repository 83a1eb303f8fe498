"""The embedded model's requests to its runtime, and its answers; no weights needed."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from windlass.content import Message
from windlass.errors import ModelError
from windlass.events import ModelEvent, TextDelta, TurnEnded
from windlass.model import ModelRequest, Preparation, Settings
from windlass.models.local import model as local
from windlass.models.local.model import LocalModel
from windlass.models.local.weights import WeightsProgress

HELLO = [
    {"prompt_progress": {"total": 10}, "choices": [{"index": 0, "delta": {"role": "assistant"}}]},
    {"choices": [{"index": 0, "delta": {"content": "Hello"}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]


def too_long(tokens: int, context: int) -> list[dict[str, Any]]:
    error = {"code": 400, "message": "too much", "n_prompt_tokens": tokens, "n_ctx": context}
    return [{"error": error}]


class FakeEngine:
    """Answers each request with the next list of chunks."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        self._answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.is_loaded = False

    async def load(self) -> None:
        self.is_loaded = True

    async def chunks(self, body: bytes) -> AsyncGenerator[bytes, None]:
        self.asked.append(json.loads(body))
        for chunk in self._answers.pop(0):
            yield json.dumps(chunk).encode()


@pytest.fixture
def model(tmp_path: Path) -> LocalModel:
    (tmp_path / "own.gguf").write_bytes(b"GGUF")
    return LocalModel(str(tmp_path / "own.gguf"), context=4096)


def with_engine(monkeypatch: pytest.MonkeyPatch, *answers: list[dict[str, Any]]) -> FakeEngine:
    engine = FakeEngine(*answers)

    def engine_of(path: Path, context: int) -> FakeEngine:
        return engine

    monkeypatch.setattr(local, "engine_of", engine_of)
    return engine


async def events_of(model: LocalModel, *messages: Message, **settings: Any) -> list[ModelEvent]:
    request = ModelRequest(messages, settings=Settings(**settings))
    async with model.stream(request) as events:
        return [event async for event in events]


async def test_an_answer_has_a_token_limit_and_temperature_0_by_default(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = with_engine(monkeypatch, HELLO, HELLO)
    await events_of(model, Message.user("hi"))
    await events_of(model, Message.user("hi"), temperature=0.7, max_tokens=5)
    said = [(body["temperature"], body["max_tokens"]) for body in engine.asked]
    assert said == [(0.0, 512), (0.7, 5)]


async def test_a_turn_has_the_text_and_the_end_of_the_runtime(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_engine(monkeypatch, HELLO)
    assert await events_of(model, Message.user("hi")) == [TextDelta("Hello"), TurnEnded("stop")]


async def test_a_prompt_that_the_runtime_refuses_is_shortened(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = with_engine(monkeypatch, too_long(700, 600), HELLO)
    chat = [Message.user("old " * 100), Message.assistant("yes"), Message.user("new")]
    await events_of(model, *chat)
    assert [len(body["messages"]) for body in engine.asked] == [3, 1]
    assert engine.asked[1]["max_tokens"] == 600 // 8


async def test_a_prompt_that_leaves_little_room_but_cannot_shrink_is_answered(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    tight = [{**HELLO[0], "prompt_progress": {"total": 4000}}, *HELLO[1:]]
    engine = with_engine(monkeypatch, tight)
    assert TextDelta("Hello") in await events_of(model, Message.user("long"))
    assert len(engine.asked) == 1


async def test_a_prompt_that_is_too_long_is_refused_with_both_numbers(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_engine(monkeypatch, too_long(5000, 4096))
    with pytest.raises(ModelError, match=r"5000 tokens, .* room for 4096") as raised:
        await events_of(model, Message.user("long"))
    assert (raised.value.status, raised.value.retryable) == (400, False)


async def test_any_other_refusal_is_the_runtime_s_own(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = {"error": {"code": 500, "message": "image input is not supported"}}
    with_engine(monkeypatch, [error])
    with pytest.raises(ModelError, match="image input is not supported"):
        await events_of(model, Message.user("look"))


async def test_warming_asks_for_the_same_prompt_and_one_token(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = with_engine(monkeypatch, HELLO, HELLO)
    request = ModelRequest([Message.system("rules"), Message.user("hi")])
    await model.warm(request)
    await events_of(model, *request.messages)
    warmed, asked = engine.asked
    assert warmed["messages"] == asked["messages"]
    assert warmed["max_tokens"] == 1


def reading(done: int, total: int = 100) -> dict[str, Any]:
    progress = {"total": total, "processed": done}
    return {"prompt_progress": progress, "choices": [{"index": 0, "delta": {}}]}


async def test_warming_reports_loading_and_reading_until_the_model_is_ready(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(local.time, "monotonic", lambda: now)
    with_engine(monkeypatch, [reading(20), reading(60), reading(100), *HELLO[1:]])
    seen: list[tuple[WeightsProgress, Preparation | None]] = []

    def on_progress(progress: WeightsProgress) -> None:
        nonlocal now
        seen.append((progress, model.preparation))
        now += 4

    model.on_progress = on_progress
    assert model.preparation == Preparation("loading")
    await model.warm(ModelRequest([Message.user("hi")]))
    assert seen == [
        (WeightsProgress("loading", 0, 1), Preparation("loading")),
        (WeightsProgress("loading", 1, 1), Preparation("loading", 0)),
        (WeightsProgress("reading", 20, 100), Preparation("reading")),
        (WeightsProgress("reading", 60, 100), Preparation("reading", 4)),
        (WeightsProgress("reading", 100, 100), Preparation("reading", 0)),
    ]
    assert model.preparation is None


async def test_the_time_that_is_left_counts_down_between_two_reports(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(local.time, "monotonic", lambda: now)
    with_engine(monkeypatch, [reading(20), reading(40), *HELLO[1:]])
    left: list[int | None] = []

    def on_progress(progress: WeightsProgress) -> None:
        nonlocal now
        for seconds in (0, 2, 2, 60) if progress.done == 40 else (4,):
            now += seconds
            left.append(model.preparation.seconds_left if model.preparation else None)

    model.on_progress = on_progress
    await model.warm(ModelRequest([Message.user("hi")]))
    assert left[-4:] == [12, 10, 8, 1]


async def test_several_prompts_to_warm_are_one_preparation(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = [reading(50), reading(100)], [reading(200, 400), reading(400, 400)]
    with_engine(monkeypatch, [*first, *HELLO[1:]], [*second, *HELLO[1:]])
    seen: list[WeightsProgress] = []

    def on_progress(progress: WeightsProgress) -> None:
        seen.append(progress)
        assert model.preparation is not None

    model.on_progress = on_progress
    # By its length, the second prompt has three times as many tokens; it has four times as many.
    await model.warm(*(ModelRequest([Message.user("word " * n)]) for n in (10, 30)))
    assert [(each.stage, each.done, each.total) for each in seen] == [
        ("loading", 0, 1),
        ("loading", 1, 1),
        ("reading", 50, 400),
        ("reading", 100, 400),
        ("reading", 300, 500),
        ("reading", 500, 500),
    ]
    assert model.preparation is None


async def test_a_preparation_that_fails_is_over(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_engine(monkeypatch, [reading(20), {"error": {"code": 500, "message": "no memory"}}])
    with pytest.raises(ModelError, match="no memory"):
        await model.warm(ModelRequest([Message.user("hi")]))
    assert model.preparation is None


async def test_a_model_is_ready_after_its_first_token_without_warming_too(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_engine(monkeypatch, HELLO)
    await events_of(model, Message.user("hi"))
    assert model.preparation is None


async def test_progress_of_one_load_is_reported_to_its_caller_only(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_engine(monkeypatch, HELLO)
    loaded: list[WeightsProgress] = []
    await model.load(loaded.append)
    await model.warm(ModelRequest([Message.user("hi")]))
    assert [each.done for each in loaded] == [0, 1]


def test_the_users_own_weights_are_treated_as_a_small_model(model: LocalModel) -> None:
    assert model.emulation_profile == "small"
    assert "LocalModel" in repr(model)
