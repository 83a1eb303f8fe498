"""Prices, and the cost of tokens: exact in every case, and never invented."""

import decimal
import os
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import ConfigError, Price, Usage
from windlass.loop.policy import Policy
from windlass.pricing import price_of

MODEL = "openai/gpt-5-mini"
prices = st.decimals(min_value=0, max_value=10_000, allow_nan=False, places=9)
counts = st.integers(min_value=0, max_value=10**12)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    cached, fresh, output = draw(counts), draw(counts), draw(counts)
    return Usage(cached + fresh, output, cached + fresh + output, cached)


@given(prices, prices, st.none() | prices, usages())
def test_a_cost_is_exact(
    input: Decimal, output: Decimal, cached: Decimal | None, usage: Usage
) -> None:
    cost = Price(input=input, output=output, cached_input=cached).cost(usage)
    fresh = usage.input_tokens - usage.cached_tokens
    expected = Fraction(input) * fresh + Fraction(output) * usage.output_tokens
    expected += Fraction(input if cached is None else cached) * usage.cached_tokens
    assert Fraction(cost) == expected / 1_000_000


@given(prices, prices, st.lists(usages(), max_size=20))
def test_the_cost_of_a_sum_is_the_sum_of_the_costs(
    input: Decimal, output: Decimal, used: list[Usage]
) -> None:
    price = Price(input=input, output=output)
    with decimal.localcontext() as context:
        context.prec = 3  # the program's own precision does not matter
        total = sum(map(price.priced, used), Usage())
    assert Fraction(total.cost or 0) == Fraction(price.cost(sum(used, Usage())))


@given(prices, usages())
def test_a_cost_survives_json_unchanged(price: Decimal, usage: Usage) -> None:
    priced = Price(input=price, output=price).priced(usage)
    assert msgspec.json.decode(msgspec.json.encode(priced), type=Usage) == priced
    policy = Policy(price=Price(input=price, output=price), max_cost=price + 1)
    stored = msgspec.to_builtins(policy, enc_hook=str)
    assert msgspec.convert(stored, Policy) == policy


def test_a_float_is_the_number_that_was_written() -> None:
    price = Price(input=0.1, output="0.3", cached_input=1)
    assert (price.input, price.output, price.cached_input) == (
        Decimal("0.1"),
        Decimal("0.3"),
        Decimal(1),
    )
    assert price.cost(Usage(30_000_000, 0, 30_000_000)) == 3


def test_cached_tokens_above_the_input_count_as_the_whole_input() -> None:
    assert Price(input=2, output=1, cached_input=1).cost(Usage(1_000_000, 0, 0, 5_000_000)) == 1


def test_a_usage_without_a_price_has_no_cost() -> None:
    assert (Usage(1, 1, 2) + Usage(1, 1, 2)).cost is None
    assert (Usage(1, 1, 2) + Usage(cost=Decimal("0.5"))).cost == Decimal("0.5")


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "free", True, None, "1e99"])
def test_an_invalid_price_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="the price of input must"):
        Price(input=wrong, output=1)


@pytest.mark.parametrize("name", ["gpt-5-mini", MODEL])
def test_a_model_has_its_price_by_either_name(name: str) -> None:
    price = Price(input=1, output=2)
    assert price_of(MODEL, {name: price, "gpt-5": Price(input=9, output=9)}) == price
    assert price_of(MODEL, {name: {"input": 1, "output": 2}}) == price
    assert price_of("openai/other", {name: price}) is None
    assert price_of(MODEL, None) is None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"gpt-5-mini": {"input": 1}}, "'gpt-5-mini': the price of output is missing"),
        ({"gpt-5-mini": {"input": 1, "outptu": 2}}, "a price has no field 'outptu'"),
        ({"gpt-5-mini": 3}, "must be a table with input, output, cached_input, not 3"),
        ({"gpt-5-mini": {"input": "x", "output": 2}}, "the price of input must be a number"),
        ([1], "prices must be a table of models or a file"),
    ],
)
def test_an_error_about_prices_names_the_model_and_the_field(table: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        price_of(MODEL, table)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("prices.toml", '[gpt-5-mini]\ninput = 0.25\noutput = "2"\ncached_input = 0.025\n'),
        ("prices.json", '{"gpt-5-mini": {"input": 0.25, "output": 2, "cached_input": "0.025"}}'),
    ],
)
def test_prices_come_from_a_file_which_may_change(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    expected = Price(input="0.25", output=2, cached_input="0.025")
    assert price_of(MODEL, path) == price_of(MODEL, str(path)) == expected
    path.write_text(text.replace("0.25", "0.5"))
    later = path.stat().st_mtime_ns + 1_000_000
    os.utime(path, ns=(later, later))
    found = price_of(MODEL, path)
    assert found is not None
    assert found.input == Decimal("0.5")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"cannot read the prices in .*missing.toml: No such file"
    ):
        price_of(MODEL, tmp_path / "missing.toml")
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[")
    with pytest.raises(ConfigError, match=r"cannot read the prices in .*wrong.toml"):
        price_of(MODEL, wrong)
