"""Budgets of keys: tokens and cost in a day and a month of UTC.

Each key has one entry with its spending. The entry is stored with the runs, so it survives a
restart, and the gateways of a fleet share it. An entry also has the last counted round of each
active run, so that a resumed run counts no round twice.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from windlass.content import Usage
from windlass.errors import StorageError
from windlass.gateway.config import KeyConfig
from windlass.gateway.http.errors import Refused
from windlass.jsontext import encode_json
from windlass.wires.errors import Problem

log = logging.getLogger("windlass.gateway")

Period = Literal["day", "month"]
KEPT_DAYS = 2
"""How many days an entry remembers the rounds of a run that no gateway has finished."""
CODE = "key_budget_exceeded"


class Amount(Struct, frozen=True, omit_defaults=True):
    """Tokens and their cost."""

    tokens: int = 0
    cost: Decimal = Decimal(0)

    def __add__(self, usage: Usage) -> "Amount":
        # Usage adds costs exactly.
        cost = (Usage(cost=self.cost) + Usage(cost=usage.cost)).cost
        return Amount(self.tokens + usage.all_tokens, cost or Decimal(0))


class Counted(Struct, frozen=True):
    """The last counted round of a run, and its day."""

    day: str
    round: int


class Spending(Struct, frozen=True, omit_defaults=True):
    """The spending of a key in the current day and month. Pure."""

    date: str = ""
    """The current day, as `2026-11-17`."""
    day: Amount = Amount()
    month: Amount = Amount()
    runs: dict[str, Counted] = {}

    def on(self, now: datetime) -> "Spending":
        """The spending at this time: a new day or month starts from 0."""
        today = _date(now)
        # Clocks of a fleet differ. A date that is slightly ahead is the current one.
        if today <= self.date <= _date(now + timedelta(hours=1)):
            return self
        is_ahead = self.date > today
        same_month = is_ahead or self.date[:7] == today[:7]
        oldest = _date(now - timedelta(days=KEPT_DAYS))
        return Spending(
            today,
            self.day if is_ahead else Amount(),
            self.month if same_month else Amount(),
            {run: counted for run, counted in self.runs.items() if counted.day >= oldest},
        )

    def add(self, run: str, round: int, usage: Usage) -> "Spending":
        """Counts a round of a run; nothing if it was counted before."""
        known = self.runs.get(run)
        if known is not None and known.round >= round:
            return self
        runs = {**self.runs, run: Counted(self.date, round)}
        return Spending(self.date, self.day + usage, self.month + usage, runs)

    def without(self, runs: set[str]) -> "Spending":
        """Forgets ended runs."""
        left = {run: counted for run, counted in self.runs.items() if run not in runs}
        return Spending(self.date, self.day, self.month, left)


class Limit(NamedTuple):
    """A budget of a key that is used up."""

    text: str
    period: Period

    def resets(self, now: datetime) -> datetime:
        start = now.replace(hour=0, minute=0, second=0, microsecond=0)
        if self.period == "day":
            return start + timedelta(days=1)
        return (start.replace(day=1) + timedelta(days=32)).replace(day=1)


def has_budget(key: KeyConfig | None) -> bool:
    if key is None:
        return False
    has_tokens = not (key.max_tokens_per_day is key.max_tokens_per_month is None)
    return has_tokens or has_cost_budget(key)


def has_cost_budget(key: KeyConfig | None) -> bool:
    return key is not None and not (key.max_cost_per_day is key.max_cost_per_month is None)


def reached(key: KeyConfig, spending: Spending) -> Limit | None:
    """The budget that is used up; if several are, one of those that reset last."""
    month, day = spending.month, spending.day
    if key.max_tokens_per_month is not None and month.tokens >= key.max_tokens_per_month:
        return Limit(f"{key.max_tokens_per_month:,} tokens a month", "month")
    if key.max_cost_per_month is not None and month.cost >= key.max_cost_per_month:
        return Limit(f"a cost of {key.max_cost_per_month} a month", "month")
    if key.max_tokens_per_day is not None and day.tokens >= key.max_tokens_per_day:
        return Limit(f"{key.max_tokens_per_day:,} tokens a day", "day")
    if key.max_cost_per_day is not None and day.cost >= key.max_cost_per_day:
        return Limit(f"a cost of {key.max_cost_per_day} a day", "day")
    return None


class SpendingStore(Protocol):
    """Where the spending of keys is stored. Raises `StorageError` if it cannot be reached."""

    async def update_spending(self, name: str, change: Callable[[Spending], Spending]) -> Spending:
        """Changes an entry in one step, and returns it. `change` may be called several times."""
        ...

    async def read_spending(self, name: str) -> Spending: ...


class MemorySpending:
    """The spending of keys in this process."""

    def __init__(self) -> None:
        self._entries: dict[str, Spending] = {}

    async def update_spending(self, name: str, change: Callable[[Spending], Spending]) -> Spending:
        self._entries[name] = changed = change(self._entries.get(name, Spending()))
        return changed

    async def read_spending(self, name: str) -> Spending:
        return self._entries.get(name, Spending())


@runtime_checkable
class SharedCounters(Protocol):
    """A run log in a file, with values that the processes of one machine share: `SQLiteLog`."""

    async def counter(self, name: str) -> bytes: ...

    async def update_counter(self, name: str, change: Callable[[bytes], bytes]) -> bytes: ...


class FileSpending:
    """The spending of keys in the file of runs."""

    def __init__(self, file: SharedCounters) -> None:
        self._file = file

    async def update_spending(self, name: str, change: Callable[[Spending], Spending]) -> Spending:
        def update(data: bytes) -> bytes:
            return encode_json(change(_read(data)))

        return _read(await self._file.update_counter(f"budget {name}", update))

    async def read_spending(self, name: str) -> Spending:
        return _read(await self._file.counter(f"budget {name}"))


def _read(data: bytes) -> Spending:
    """An unreadable entry starts from 0."""
    try:
        return msgspec.json.decode(data, type=Spending) if data else Spending()
    except msgspec.DecodeError:
        log.error("Cannot read the stored budget of a key: it starts from 0")
        return Spending()


class _KeySpending:
    """The spending of one key as this gateway knows it."""

    def __init__(self) -> None:
        self.known = Spending()
        """The spending as last stored or read."""
        self.unsaved: list[tuple[str, int, Usage]] = []
        """Rounds that are not stored yet."""
        self.ended: set[str] = set()
        """Ended runs that the stored entry may still have."""
        self.lock = asyncio.Lock()


class KeyBudgets:
    """Counts the rounds of all runs for the budgets of their keys, in one event loop.

    While the store cannot be reached, rounds are counted here and stored later.
    """

    def __init__(
        self,
        store: SpendingStore,
        refused: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`refused` is called with the reason of each refusal."""
        self._store, self._refused, self._clock = store, refused, clock
        self._entries: defaultdict[str, _KeySpending] = defaultdict(_KeySpending)
        self._failing = False
        self._saving: set[asyncio.Task[None]] = set()

    async def check(self, key: KeyConfig | None) -> None:
        """Raises `Refused` (429) if a budget of the key is used up."""
        if key is None or not has_budget(key):
            return
        now = self._now()
        limit = reached(key, await self._current(key.name))
        if limit is None:
            return
        resets = limit.resets(now)
        at = resets.strftime("%Y-%m-%dT%H:%M:%SZ")
        message = f"This key has used up its budget of {limit.text}. It resets at {at}."
        seconds = (resets - now).total_seconds()
        problem = Problem(429, message, CODE, type="insufficient_quota", retry_after=seconds)
        self._refused("budget")
        raise Refused(problem)

    def of(self, key: KeyConfig | None, run_id: str) -> "RunSpending | None":
        """The budget of a run of this key; None if the key has none."""
        return RunSpending(self, key, run_id) if key is not None and has_budget(key) else None

    async def is_used_up(self, key: KeyConfig) -> bool:
        return reached(key, await self._current(key.name)) is not None

    async def spend(self, key: KeyConfig, run_id: str, round: int, usage: Usage) -> bool:
        """Counts a round of a run, once. Returns whether a budget of the key is used up."""
        entry = self._entries[key.name]
        entry.unsaved.append((run_id, round, usage))
        # A task, so that the round of a run that is stopped now is still counted.
        saving = asyncio.create_task(self._save(key.name))
        self._saving.add(saving)
        saving.add_done_callback(self._saving.discard)
        await asyncio.shield(saving)
        return reached(key, self._counted(entry)) is not None

    def forget(self, key: KeyConfig, run_id: str) -> None:
        """Forgets an ended run, whose rounds cannot be counted again."""
        self._entries[key.name].ended.add(run_id)

    async def aclose(self) -> None:
        """Stores the rounds that are not stored yet."""
        await asyncio.gather(*self._saving, return_exceptions=True)
        for name in list(self._entries):
            await self._save(name)

    async def _current(self, name: str) -> Spending:
        """The current spending of the key in all gateways."""
        entry = self._entries[name]
        if entry.unsaved:
            await self._save(name)
        else:
            try:
                entry.known = await self._store.read_spending(name)
            except StorageError as error:
                self._failed(error)
        return self._counted(entry)

    async def _save(self, name: str) -> None:
        """Stores all rounds of the key that are not stored yet, in one step."""
        entry = self._entries[name]
        async with entry.lock:
            rounds, ended, now = list(entry.unsaved), set(entry.ended), self._now()
            if not rounds:
                return

            def change(spending: Spending) -> Spending:
                spending = spending.on(now)
                for each in rounds:
                    spending = spending.add(*each)
                return spending.without(ended)

            try:
                entry.known = await self._store.update_spending(name, change)
            except StorageError as error:
                self._failed(error)
                return
            del entry.unsaved[: len(rounds)]
            entry.ended -= ended
            if self._failing:
                self._failing = False
                log.info("Budgets of keys are stored again")

    def _counted(self, entry: _KeySpending) -> Spending:
        spending = entry.known.on(self._now())
        for each in entry.unsaved:
            spending = spending.add(*each)
        return spending

    def _failed(self, error: StorageError) -> None:
        if not self._failing:
            self._failing = True
            log.warning("Cannot store the budgets of keys; counting this gateway alone: %s", error)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


class RunSpending:
    """The spending of one run, counted for the budget of its key: a `SharedBudget` of the loop."""

    def __init__(self, budgets: KeyBudgets, key: KeyConfig, run_id: str) -> None:
        self._budgets, self._key, self._run_id = budgets, key, run_id

    async def spend(self, round: int, usage: Usage) -> bool:
        return await self._budgets.spend(self._key, self._run_id, round, usage)

    async def is_used_up(self) -> bool:
        return await self._budgets.is_used_up(self._key)

    def end(self) -> None:
        self._budgets.forget(self._key, self._run_id)


def _date(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d")
