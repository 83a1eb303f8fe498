"""Budgets of keys: counted by round, in a day and a month, and kept over a restart."""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.asgi import Answer, bearer, post, request
from tests.support.ingress import INGRESSES, Ingress

from windlass import Price, Usage, tool
from windlass.errors import ModelError, StorageError
from windlass.gateway.app import App
from windlass.gateway.config import GatewayConfig, KeyConfig, ModelConfig, RunsConfig
from windlass.gateway.config.keys import key_hash, new_key
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.errors import Refused
from windlass.gateway.limits.budgets import Amount, KeyBudgets, MemorySpending, Spending
from windlass.testing import Gate, ScriptedModel, call, calls, say, slow
from windlass.testing.script import Turn

SECRET, _ = new_key()
ROUND = Usage(80, 20, 100)
IN_MEMORY = RunsConfig()
PRICE = Price(input=10, output=40)
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@tool
def step(n: int = 0) -> int:
    """Makes one step."""
    return n


def turn(n: int = 0) -> Turn:
    return calls(call("step", n=n), usage=ROUND)


def answer(text: str = "Done.") -> Turn:
    return say(text, usage=ROUND)


def key_of(name: str = "web", secret: str = SECRET, **limits: Any) -> KeyConfig:
    return KeyConfig(name=name, hash=key_hash(secret), **limits)


def gateway_of(script: Any, *keys: KeyConfig, runs: RunsConfig = IN_MEMORY, **model: Any) -> App:
    model = {"target": "scripted/m", "tools": ("step",), "prices": PRICE, **model}
    served = ModelConfig(name="m", **{"max_rounds": 50, **model})
    config = GatewayConfig(models={"m": served}, keys=keys, runs=runs)
    return App(Gateway(config, models={"m": ScriptedModel(script)}, tools=[step]))


async def ask(app: App, body: dict[str, Any] = BODY, **more: Any) -> Answer:
    return await post(app, body, headers=[bearer(more.pop("secret", SECRET))], **more)


def used(app: App, name: str = "web") -> Spending:
    return app.gateway.budgets._counted(app.gateway.budgets._entries[name])


# The spending of a key.


def test_a_round_counts_once() -> None:
    spending = Spending().on(NOON).add("a", 1, ROUND).add("a", 1, ROUND).add("a", 2, ROUND)
    assert spending.day == spending.month == Amount(200)
    assert spending.add("b", 1, ROUND).day == Amount(300)


def test_a_new_day_and_a_new_month_start_from_zero() -> None:
    spending = Spending().on(NOON).add("a", 1, ROUND)
    evening = spending.on(NOON.replace(hour=23, minute=59))
    assert evening == spending
    tomorrow = spending.on(NOON.replace(day=18))
    assert (tomorrow.day, tomorrow.month) == (Amount(), Amount(100))
    december = spending.on(NOON.replace(month=12))
    assert (december.day, december.month) == (Amount(), Amount())
    next_year = spending.on(NOON.replace(year=2027))
    assert (next_year.day, next_year.month) == (Amount(), Amount())


def test_a_gateway_whose_clock_is_behind_does_not_go_back_a_day() -> None:
    midnight = datetime(2026, 11, 18, 0, 0, 1, tzinfo=UTC)
    spending = Spending().on(midnight).add("a", 1, ROUND)
    assert spending.on(datetime(2026, 11, 17, 23, 59, 58, tzinfo=UTC)) == spending


def test_a_clock_that_was_far_ahead_does_not_lock_a_key_until_then() -> None:
    spending = Spending().on(NOON.replace(year=2036)).add("a", 1, ROUND)
    assert spending.on(NOON).date == "2026-11-17"
    assert spending.on(NOON).day == Amount(100)


def test_a_run_is_forgotten_when_it_ends_or_is_old() -> None:
    spending = Spending().on(NOON).add("a", 1, ROUND).add("b", 1, ROUND)
    assert spending.without({"a"}).runs.keys() == {"b"}
    assert spending.on(NOON.replace(day=19)).runs.keys() == {"a", "b"}
    assert spending.on(NOON.replace(day=20)).runs == {}


rounds = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(1, 6),
        st.integers(0, 10**9),
        st.decimals(0, 1000, allow_nan=False, places=12),
    ),
    max_size=30,
)


@given(rounds, st.data())
def test_the_sum_does_not_depend_on_repetitions(
    made: list[tuple[str, int, int, Decimal]], data: st.DataObject
) -> None:
    """Runs report their rounds in order; any of them may be reported again."""
    in_order = sorted({each[:2]: each for each in made}.values())
    spending, total, cost = Spending().on(NOON), 0, Decimal(0)
    for run, number, tokens, price in in_order:
        usage = Usage(tokens, 0, tokens, cost=price)
        for _ in range(data.draw(st.integers(1, 3))):
            spending = spending.add(run, number, usage)
        total, cost = total + tokens, cost + price
    assert spending.day == spending.month == Amount(total, cost)


# Requests.


async def test_a_key_without_budget_left_is_refused_before_its_run_starts() -> None:
    app = gateway_of([answer(), answer()], key_of(max_tokens_per_day=100))
    assert (await ask(app)).status == 200
    app.gateway.budgets._clock = NOON.timestamp
    app.gateway.budgets._entries["web"].known = Spending().on(NOON).add("r", 1, ROUND)
    await app.gateway.budgets._store.update_spending(
        "web", lambda _: Spending().on(NOON).add("r", 1, ROUND)
    )
    refused = await ask(app)
    assert (refused.status, refused.error["code"]) == (429, "key_budget_exceeded")
    assert refused.error["message"] == (
        "This key has used up its budget of 100 tokens a day. It resets at 2026-11-18T00:00:00Z."
    )
    assert refused.headers["retry-after"] == str(12 * 3600)
    assert refused.headers["x-should-retry"] == "false"
    app.gateway.budgets._clock = NOON.replace(day=18).timestamp
    assert (await ask(app)).status == 200


@pytest.mark.parametrize(
    ("limit", "text", "resets"),
    [
        ({"max_tokens_per_day": 100}, "100 tokens a day", "2026-11-18T00:00:00Z"),
        ({"max_tokens_per_month": 100}, "100 tokens a month", "2026-12-01T00:00:00Z"),
        ({"max_cost_per_day": Decimal("0.0016")}, "a cost of 0.0016 a day", "2026-11-18"),
        ({"max_cost_per_month": Decimal("0.001")}, "a cost of 0.001 a month", "2026-12-01"),
        ({"max_tokens_per_day": 1, "max_tokens_per_month": 9}, "9 tokens a month", "2026-12-01"),
    ],
)
async def test_every_budget_error_names_the_budget_and_its_reset_time(
    limit: dict[str, Any], text: str, resets: str
) -> None:
    key, clock = key_of(**limit), NOON.timestamp
    reasons: list[str] = []
    budgets = KeyBudgets(MemorySpending(), reasons.append, clock)
    await budgets.check(key)
    assert await budgets.spend(key, "run", 1, PRICE.priced(ROUND))
    with pytest.raises(Refused, match=f"budget of {text}. It resets at {resets}"):
        await budgets.check(key)
    assert reasons == ["budget"]


async def test_other_keys_have_their_own_budget() -> None:
    secret, _ = new_key()
    keys = key_of(max_tokens_per_day=1), key_of("other", secret, max_tokens_per_day=1000)
    app = gateway_of([answer()] * 3, *keys)
    assert [(await ask(app)).status for _ in range(2)] == [200, 429]
    assert [(await ask(app, secret=secret)).status for _ in range(2)] == [200, 200]


async def test_a_running_run_ends_after_its_current_round() -> None:
    app = gateway_of([turn(1), turn(2), turn(3), answer()], key_of(max_tokens_per_day=150))
    first = await ask(app)
    assert first.status == 200
    [choice] = first.json["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"] == (
        "The budget of this key was used up before the model had an answer."
    )
    assert first.json["usage"]["total_tokens"] == 200
    assert used(app).day.tokens == 200
    run = await request(
        app, "GET", f"/v1/runs/{first.headers['x-windlass-run-id']}", headers=[bearer(SECRET)]
    )
    assert run.json["stop_reason"] == "budget"


async def test_a_streamed_run_reports_once_that_the_budget_of_its_key_is_used_up() -> None:
    app = gateway_of([turn(1), turn(2), answer()], key_of(max_tokens_per_day=150))
    streamed = await ask(app, {**BODY, "stream": True})
    assert streamed.body.count(b"The budget of this key was used up") == 1


async def test_a_round_that_fails_counts_what_its_model_has_used() -> None:
    def fail(_: object) -> Turn:
        error = ModelError("The answer is invalid.", status=422)
        error.usage = ROUND
        raise error

    app = gateway_of(fail, key_of(max_tokens_per_day=150))
    assert (await ask(app)).status == 422
    assert used(app).day.tokens == 100


async def test_a_run_that_waits_for_its_tool_ends_when_another_uses_the_budget() -> None:
    gate = Gate()

    @tool
    async def wait() -> str:
        """Waits."""
        await gate.passed()
        return "done"

    script = iter([calls(call("wait"), usage=ROUND), answer("Other."), answer("Never.")])
    key = key_of(max_tokens_per_day=200)
    served = ModelConfig(name="m", target="scripted/m", tools=("wait",), prices=PRICE)
    config = GatewayConfig(models={"m": served}, keys=(key,))
    model = ScriptedModel(lambda _: next(script))
    app = App(Gateway(config, models={"m": model}, tools=[wait]))
    waiting = asyncio.create_task(ask(app))
    await gate.reached.wait()
    assert (await ask(app)).status == 200
    gate.open()
    ended = await waiting
    assert ended.json["choices"][0]["finish_reason"] == "length"
    assert used(app).day.tokens == 200  # no third request


async def test_many_runs_at_once_exceed_a_budget_by_one_round_each_at_most() -> None:
    gate = Gate()
    app = gateway_of(
        lambda request: slow(turn(), gate), key_of(max_tokens_per_day=1000), max_rounds=50
    )
    asked = [asyncio.create_task(ask(app)) for _ in range(8)]
    await gate.reached.wait()
    gate.open()
    assert {(await each).status for each in asked} == {200}
    assert 1000 <= used(app).day.tokens <= 1000 + 8 * 100


@pytest.mark.parametrize("ingress", INGRESSES.values(), ids=lambda each: each.name)
async def test_a_refusal_has_the_form_of_its_wire(ingress: Ingress) -> None:
    app = gateway_of([answer()], key_of(max_tokens_per_month=1))
    assert (await ask(app)).status == 200
    path, body = ingress.request("m", [ingress.user("Hi")])
    refused = await post(app, body, path, headers=[bearer(SECRET)])
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) > 0
    error = refused.json["error"]
    assert "budget of 1 tokens a month" in error["message"]
    match ingress.name:
        case "chat" | "responses":
            assert (error["code"], error["type"]) == ("key_budget_exceeded", "insufficient_quota")
        case "messages":
            assert (refused.json["type"], error["type"]) == ("error", "rate_limit_error")
        case _:
            assert (error["code"], error["status"]) == (429, "RESOURCE_EXHAUSTED")
            reasons = [each.get("reason") for each in error["details"]]
            assert "KEY_BUDGET_EXCEEDED" in reasons or "key_budget_exceeded" in reasons


@pytest.mark.parametrize("ingress", INGRESSES.values(), ids=lambda each: each.name)
@pytest.mark.parametrize("way", ["body", "float", "header"])
async def test_a_request_can_set_a_budget_on_every_wire(ingress: Ingress, way: str) -> None:
    def script(request: Any) -> Turn:
        assert not request.extra.keys() & {"max_tokens_total", "maxTokensTotal"}
        return turn() if request.tools else answer("That is all.")

    providers = {"chat": "openai", "messages": "anthropic"}  # a model on the same wire gets extras
    app = gateway_of(script, key_of(), target=f"{providers.get(ingress.name, ingress.name)}/m")
    path, body = ingress.request("m", [ingress.user("Hi")])
    headers = [bearer(SECRET)]
    if way == "header":
        headers.append((b"x-windlass-max-tokens-total", b"250"))
    else:
        name = "maxTokensTotal" if ingress.name == "gemini" else "max_tokens_total"
        body[name] = 250.0 if way == "float" else 250
    answered = await post(app, body, path, headers=headers)
    assert answered.status == 200
    seen = ingress.read(answered.json)
    assert seen.text == "That is all."
    finish = {"chat": "length", "gemini": "length", "messages": "stop", "responses": "stop"}
    assert seen.finish == finish[ingress.name]
    run = app.gateway.runs.all()[0]
    assert (await run.state()).record.reason == "budget"  # pyright: ignore[reportGeneralTypeIssues]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("max_tokens_total", 0, "max_tokens_total: must be a whole number, 1 or more"),
        ("max_tokens_total", 1.5, "max_tokens_total: must be a whole number, 1 or more"),
        ("max_tokens_total", "many", "max_tokens_total: must be a whole number, 1 or more"),
        ("max_cost", -1, "max_cost: must be a number above 0, at most 40 digits long"),
        ("max_cost", 1e300, "max_cost: must be a number above 0, at most 40 digits long"),
        ("timeout", "soon", "timeout: must be a number above 0, at most 40 digits long"),
        ("timeout", 1e12, "timeout: must be at most one year, in seconds"),
    ],
)
async def test_a_wrong_budget_of_a_request_is_named(field: str, value: Any, message: str) -> None:
    refused = await ask(gateway_of([]), {**BODY, field: value})
    assert (refused.status, refused.error["param"], refused.error["message"]) == (
        400,
        field,
        message,
    )


async def test_a_cost_of_a_request_needs_prices() -> None:
    refused = await ask(gateway_of([], prices=None), {**BODY, "max_cost": 1})
    assert (refused.status, refused.error["code"]) == (400, "no_prices")
    app = gateway_of(lambda request: turn() if request.tools else answer())
    answered = await ask(app, {**BODY, "max_cost": 0.004})
    assert answered.json["choices"][0]["finish_reason"] == "length"
    assert answered.json["usage"]["total_tokens"] == 300


async def test_a_request_cannot_raise_the_budget_of_its_model() -> None:
    script = lambda request: turn() if request.tools else answer()  # noqa: E731
    app = gateway_of(script, max_tokens_total=250, max_cost=Decimal(1))
    for more in ({"max_tokens_total": 10_000}, {"max_cost": 100}):
        assert (await ask(app, {**BODY, **more})).json["usage"]["total_tokens"] == 300
    app = gateway_of([slow("Late.", Gate())], run_timeout=0.01)
    assert (await ask(app, {**BODY, "timeout": 100_000})).status == 504


async def test_a_request_can_shorten_its_time() -> None:
    app = gateway_of([slow("Late.", Gate())])
    answered = await ask(app, {**BODY, "timeout": 0.01})
    assert (answered.status, answered.error["code"]) == (504, "run_timeout")


async def test_an_exceeded_budget_with_on_limit_error_is_not_repeated_by_clients() -> None:
    app = gateway_of([turn(), turn()], on_limit="error", max_tokens_total=150)
    failed = await ask(app)
    assert (failed.status, failed.error["code"]) == (402, "run_budget_exceeded")


@pytest.mark.parametrize("ingress", INGRESSES.values(), ids=lambda each: each.name)
async def test_an_exceeded_budget_has_the_form_of_its_wire(ingress: Ingress) -> None:
    app = gateway_of([turn(), turn()], on_limit="error", max_tokens_total=150)
    path, body = ingress.request("m", [ingress.user("Hi")], stream=ingress.name == "responses")
    failed = await post(app, body, path)
    if ingress.name == "responses":  # its stream begins before the run fails
        assert b'"code":"insufficient_quota"' in failed.body
        return
    error = failed.json["error"]
    kind = {"chat": "type", "messages": "type", "gemini": "status"}[ingress.name]
    kinds = {"chat": "tool_error", "messages": "billing_error", "gemini": "FAILED_PRECONDITION"}
    assert (failed.status, error[kind]) == (402, kinds[ingress.name])


async def test_a_key_with_a_budget_of_cost_cannot_use_a_model_without_prices() -> None:
    app = gateway_of([answer()], key_of(max_cost_per_day=Decimal(1)), prices=None)
    refused = await ask(app)
    assert (refused.status, refused.error["code"]) == (403, "no_prices")


# Storage.


async def test_the_spending_of_a_key_survives_a_restart(tmp_path: Path) -> None:
    key, runs = key_of(max_cost_per_month=Decimal("0.003")), RunsConfig(path=str(tmp_path / "r.db"))
    for expected in ([200], [200, 429], [429]):
        app = gateway_of([answer(), answer()], key, runs=runs)
        assert [(await ask(app)).status for _ in expected] == expected
        await app.gateway.aclose()


async def test_gateways_on_one_file_share_a_budget(tmp_path: Path) -> None:
    key, runs = key_of(max_tokens_per_day=150), RunsConfig(path=str(tmp_path / "runs.db"))
    one, other = (gateway_of([answer()] * 2, key, runs=runs) for _ in range(2))
    assert [(await ask(app)).status for app in (one, other, one, other)] == [200, 200, 429, 429]
    for app in (one, other):
        await app.gateway.aclose()


class Broken(MemorySpending):
    """A store that cannot be reached for a while."""

    broken = False

    async def update_spending(self, name: str, change: Any) -> Spending:
        self.check()
        return await super().update_spending(name, change)

    async def read_spending(self, name: str) -> Spending:
        self.check()
        return await super().read_spending(name)

    def check(self) -> None:
        if self.broken:
            raise StorageError("gone")


async def test_rounds_count_while_the_store_is_away_and_are_stored_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, key = Broken(), key_of(max_tokens_per_day=250)
    budgets = KeyBudgets(store, lambda _: None, NOON.timestamp)
    assert not await budgets.spend(key, "a", 1, ROUND)
    store.broken = True
    assert not await budgets.spend(key, "a", 2, ROUND)
    assert await budgets.spend(key, "a", 3, ROUND)
    with pytest.raises(Refused):
        await budgets.check(key)
    assert [each.message for each in caplog.records if "Cannot store" in each.message] == [
        "Cannot store the budgets of keys; counting this gateway alone: gone"
    ]
    store.broken = False
    assert await budgets.is_used_up(key)
    assert (await store.read_spending("web")).day == Amount(300)


async def test_a_stopped_run_is_counted_and_its_rounds_are_forgotten() -> None:
    store, key = MemorySpending(), key_of(max_tokens_per_day=10_000)
    budgets = KeyBudgets(store, lambda _: None, NOON.timestamp)
    spending = asyncio.create_task(budgets.spend(key, "a", 1, ROUND))
    await asyncio.sleep(0)
    spending.cancel()
    await asyncio.gather(spending, return_exceptions=True)
    await budgets.aclose()
    assert (await store.read_spending("web")).runs.keys() == {"a"}
    budgets.forget(key, "a")
    await budgets.spend(key, "b", 1, ROUND)
    assert (await store.read_spending("web")).runs.keys() == {"b"}
    assert (await store.read_spending("web")).day == Amount(200)


async def test_tokens_and_cost_are_in_the_metrics_of_key_and_model() -> None:
    app = gateway_of([turn(), answer()], key_of(max_tokens_per_day=10_000))
    await ask(app)
    text = (await request(app, "GET", "/metrics", headers=[bearer(SECRET)])).body.decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert lines['windlass_key_tokens_total{key="web",kind="input",model="m"}'] == "160.0"
    assert lines['windlass_key_tokens_total{key="web",kind="output",model="m"}'] == "40.0"
    assert float(lines['windlass_key_cost_total{key="web",model="m"}']) == pytest.approx(0.0032)
    assert float(lines['windlass_cost_total{model="m"}']) == pytest.approx(0.0032)
