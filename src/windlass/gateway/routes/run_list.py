"""The runs of a key, and which of them are asked for."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import get_args

from msgspec import Struct

from windlass.errors import RunNotFound
from windlass.events import StopReason
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import query_number
from windlass.gateway.runs.lookup import FoundRun, KeptHere, RunStatus, known_here
from windlass.runs.records import RunRecord
from windlass.wires.errors import InvalidRequest
from windlass.wires.fields import JsonObject

__all__ = ["Newest", "RunQuery", "listed_runs", "read_limit", "read_query"]

LISTED = 1_000
"""How many a list has at most, unless it is asked for fewer."""
LARGEST_PIECE = 16 * LISTED
"""Of what is looked through at once: the more there is, the larger are the pieces."""
AT_A_STRETCH = 500
"""So many runs are looked at before others get their turn."""


class RunQuery(Struct, frozen=True, kw_only=True):
    """What a list of runs is asked for. What is empty does not choose."""

    limit: int = LISTED
    before: str = ""
    """The run that the list begins after: the last of the list before."""
    status: str = ""
    reason: str = ""
    model: str = ""
    tool: str = ""
    """One that the run has called."""
    q: str = ""
    """What its title has in it, in capitals or not."""
    summary: bool = False

    @property
    def chooses(self) -> bool:
        """Whether only some of the runs are wanted that there are."""
        return any((self.status, self.reason, self.model, self.tool, self.q))

    def wants(self, run: JsonObject) -> bool:
        """Whether a run is one of them, as far as its fields tell."""
        return (
            self.status in ("", run["status"])
            and self.reason in ("", run.get("stop_reason"))
            and self.model in ("", run["model"])
            and self.q.casefold() in run["title"].casefold()
        )


def read_query(given: Mapping[str, str]) -> RunQuery:
    """The query string. Raises `Refused`, which names the parameter."""
    return RunQuery(
        limit=read_limit(given),
        before=given.get("before", ""),
        status=_word(given, "status", get_args(RunStatus)),
        reason=_word(given, "reason", get_args(StopReason)),
        model=given.get("model", ""),
        tool=given.get("tool", ""),
        q=given.get("q", ""),
        summary=_word(given, "summary", ("true", "false")) == "true",
    )


def read_limit(given: Mapping[str, str]) -> int:
    """How many a list is to have. Raises `Refused`."""
    return min(query_number(given.get("limit"), "limit") or LISTED, LISTED)


def _word(given: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    word = given.get(name, "")
    if word and word not in words:
        raise InvalidRequest(f"{name}: must be {', '.join(words[:-1])} or {words[-1]}", name)
    return word


class Newest:
    """The runs of a key, newest first, in pieces. They go here, or the log knows them."""

    def __init__(
        self, gateway: Gateway, owner: str, before: str = "", *, running: bool = False
    ) -> None:
        """They begin after the run `before`; `running` leaves out those that have long ended."""
        self._gateway, self._owner, self._running = gateway, owner, running
        self._before = before
        self._last: RunRecord | None = None
        """The last run of the piece before."""
        self._rest: Iterator[FoundRun] | None = None

    async def some(self, size: int) -> list[FoundRun]:
        """The next so many; fewer, and these are the last. Raises `RunNotFound` for `before`."""
        runs = self._gateway.runs.all()
        here = {run.id: known_here(run) for run in runs if run.owner == self._owner}
        durable = self._gateway.durable
        if durable is None:
            if self._rest is None:
                self._rest = self._remaining([*here.values()][::-1])
            return list(islice(self._rest, size))
        if self._before:
            self._last = await durable.find(self._before, self._owner)
            self._before = ""
        records = await durable.log.list(
            owner=self._owner, open=self._running or None, before=self._last, limit=size
        )
        if records:
            self._last = records[-1]
        return [here.get(record.id) or KeptHere(record, durable) for record in records]

    def _remaining(self, runs: Sequence[FoundRun]) -> Iterator[FoundRun]:
        ids = [run.id for run in runs]
        if self._before and self._before not in ids:
            raise RunNotFound(f"no run {self._before!r} is known here")
        return iter(runs[ids.index(self._before) + 1 :] if self._before else runs)


async def listed_runs(gateway: Gateway, owner: str, query: RunQuery) -> list[JsonObject]:
    """What is told of the runs that are asked for. Raises `Refused`."""
    size = LISTED if query.chooses else query.limit
    newest = Newest(gateway, owner, query.before, running=query.status == "running")
    listed: list[JsonObject] = []
    while True:
        try:
            runs = await newest.some(size)
        except RunNotFound:
            unknown = f"before: no run {query.before[:100]!r} is known here"
            raise InvalidRequest(unknown, "before") from None
        for number, run in enumerate(runs):
            if number % AT_A_STRETCH == 0:
                await asyncio.sleep(0)
            fields = await _told(gateway, run, query)
            if fields is not None:
                listed.append(fields)
            if len(listed) == query.limit:
                return listed
        # Whether a tool was called stands in a run's events: not all that are kept can be read.
        if len(runs) < size or query.tool:
            return listed
        size = min(2 * size, LARGEST_PIECE)


async def _told(gateway: Gateway, run: FoundRun, query: RunQuery) -> JsonObject | None:
    """What is told of the run, if it is one of those that are asked for."""
    fields = await run.fields(whole=False)
    if not query.wants(fields):
        return None
    if query.tool or query.summary:
        summary = await gateway.summaries.of(run)
        if summary is None or (query.tool and not summary.calls_tool(query.tool)):
            return None
        if query.summary:
            fields["summary"] = summary.fields()
    return fields
