"""Prices of models, and the cost of their tokens in exact decimal numbers.

Windlass has no built-in prices: providers change them, and a wrong price is worse than none.
"""

import decimal
import functools
import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from windlass.content import Usage
from windlass.errors import ConfigError

Number: TypeAlias = Decimal | int | float | str

_EXACT = decimal.Context(prec=200, traps=[decimal.Inexact, decimal.InvalidOperation])
"""Never rounds costs, independent of the program's decimal context."""


def exact(value: Number, name: str) -> Decimal:
    """The number without binary rounding: 0.1 is exactly one tenth. Raises `ConfigError`."""
    given: Any = value
    if isinstance(given, bool) or not isinstance(given, Decimal | int | float | str):
        raise ConfigError(f"{name} must be a number, not {given!r}")
    try:
        number = Decimal(str(given).strip())
    except decimal.InvalidOperation:
        raise ConfigError(f"{name} must be a number, not {given!r}") from None
    if not number.is_finite() or number < 0:
        raise ConfigError(f"{name} must be 0 or more, not {given}")
    if len(number.as_tuple().digits) > 40 or abs(number.adjusted()) > 40:
        raise ConfigError(f"{name} must have at most 40 digits, not {given}")
    return number


class Price(Struct, frozen=True, kw_only=True):
    """The price of a model's tokens, for one million tokens in any currency."""

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    """The price of input tokens from the provider's cache; None means the price of `input`."""

    if TYPE_CHECKING:  # it accepts more types than its fields have

        def __init__(
            self, *, input: Number, output: Number, cached_input: Number | None = None
        ) -> None: ...

    def __post_init__(self) -> None:
        """Accepts numbers and texts. Raises `ConfigError` for anything else."""
        for name in self.__struct_fields__:
            if name != "cached_input" or self.cached_input is not None:
                number = exact(getattr(self, name), f"the price of {name}")
                msgspec.structs.force_setattr(self, name, number)

    def cost(self, usage: Usage) -> Decimal:
        """The exact cost of the tokens."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        cached_price = self.input if self.cached_input is None else self.cached_input
        millionths = _EXACT.multiply(usage.input_tokens - cached, self.input)
        for count, price in ((cached, cached_price), (usage.output_tokens, self.output)):
            millionths = _EXACT.add(millionths, _EXACT.multiply(count, price))
        return _EXACT.scaleb(millionths, -6)

    def priced(self, usage: Usage) -> Usage:
        """The usage with its cost."""
        return msgspec.structs.replace(usage, cost=self.cost(usage))


Prices: TypeAlias = Mapping[str, Price | Mapping[str, Number]] | str | os.PathLike[str]
"""Prices by the names of models, or a TOML or JSON file with them."""


def price_of(model: str, prices: Prices | None) -> Price | None:
    """The price of the model `provider/name`, by either of its names; None if it has none.

    Raises `ConfigError` for invalid prices.
    """
    if prices is None:
        return None
    table = _from_file(prices) if isinstance(prices, str | os.PathLike) else prices
    if not isinstance(table, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"prices must be a table of models or a file, not {table!r:.60}")
    for name in (model, model.partition("/")[2]):
        if name and name in table:
            try:
                return price_from(table[name])
            except ConfigError as error:
                raise ConfigError(f"prices: {name!r}: {error}") from None
    return None


def no_price(model: str) -> str:
    """The message of a cost limit without a price."""
    name = model.partition("/")[2] or model
    return (
        f"max_cost needs the price of {model!r}, and Windlass has no built-in prices: pass"
        f" prices={{{name!r}: Price(input=..., output=...)}}, for one million tokens"
    )


def price_from(value: Any) -> Price:
    """A price, or a table with its fields. Raises `ConfigError`."""
    if isinstance(value, Price):
        return value
    known = Price.__struct_fields__
    if not isinstance(value, Mapping):
        raise ConfigError(f"must be a table with {', '.join(known)}, not {value!r:.60}")
    fields = cast("Mapping[str, Any]", value)
    if unknown := [each for each in fields if each not in known]:
        raise ConfigError(f"a price has no field {unknown[0]!r} (known: {', '.join(known)})")
    if missing := [each for each in ("input", "output") if each not in fields]:
        raise ConfigError(f"the price of {missing[0]} is missing")
    return Price(**fields)


def _from_file(path: "str | os.PathLike[str]") -> Mapping[str, Any]:
    try:
        return _read(Path(path), Path(path).stat().st_mtime_ns)
    except OSError as error:
        raise ConfigError(f"cannot read the prices in {path}: {error.strerror or error}") from error


@functools.lru_cache(maxsize=16)
def _read(path: Path, changed: int) -> Mapping[str, Any]:
    """The prices of a file. The key has its time, so that a changed file is read again."""
    import tomllib  # imported here, because most programs read no prices

    data = path.read_bytes()
    try:
        if path.suffix.lower() == ".json":
            return msgspec.json.decode(data, type=dict[str, dict[str, Decimal | None]])
        return tomllib.loads(data.decode(), parse_float=Decimal)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the prices in {path}: {error}") from error
