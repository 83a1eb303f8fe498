"""Lists of runs: the query string, and the runs of a key that match it."""

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

MAX_LISTED = 1_000
"""The default and the maximum of `limit`."""
MAX_PAGE = 16 * MAX_LISTED
"""The largest number of runs that one read of the log returns; pages grow up to it."""
YIELD_EVERY = 500
"""The event loop gets control after this number of runs."""


class RunQuery(Struct, frozen=True, kw_only=True):
    """The query of a list of runs. An empty field means no filter."""

    limit: int = MAX_LISTED
    before: str = ""
    """The list starts after this run, usually the last one of the previous list."""
    status: str = ""
    reason: str = ""
    model: str = ""
    tool: str = ""
    """A tool that the run has called."""
    q: str = ""
    """A part of the title; the case does not matter."""
    summary: bool = False

    @property
    def filters(self) -> bool:
        """Whether the query has any filter."""
        return any((self.status, self.reason, self.model, self.tool, self.q))

    def matches(self, run: JsonObject) -> bool:
        """Whether the run's fields match all filters except `tool`."""
        return (
            self.status in ("", run["status"])
            and self.reason in ("", run.get("stop_reason"))
            and self.model in ("", run["model"])
            and self.q.casefold() in run["title"].casefold()
        )


def read_query(parameters: Mapping[str, str]) -> RunQuery:
    """Parses the query string. Raises `InvalidRequest` with the name of the parameter."""
    return RunQuery(
        limit=read_limit(parameters),
        before=parameters.get("before", ""),
        status=_choice(parameters, "status", get_args(RunStatus)),
        reason=_choice(parameters, "reason", get_args(StopReason)),
        model=parameters.get("model", ""),
        tool=parameters.get("tool", ""),
        q=parameters.get("q", ""),
        summary=_choice(parameters, "summary", ("true", "false")) == "true",
    )


def read_limit(parameters: Mapping[str, str]) -> int:
    """The `limit` of a list, at most `MAX_LISTED`. Raises `InvalidRequest`."""
    return min(query_number(parameters.get("limit"), "limit") or MAX_LISTED, MAX_LISTED)


def _choice(parameters: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = parameters.get(name, "")
    if value and value not in choices:
        raise InvalidRequest(f"{name}: must be {', '.join(choices[:-1])} or {choices[-1]}", name)
    return value


class NewestRuns:
    """Reads the runs of a key in pages, newest first: those of this process and of the log."""

    def __init__(
        self, gateway: Gateway, owner: str, before: str = "", *, running: bool = False
    ) -> None:
        """Starts after the run `before`; `running` leaves out runs that the log has as ended."""
        self._gateway, self._owner, self._running = gateway, owner, running
        self._before = before
        self._last: RunRecord | None = None
        """The last run of the previous page."""
        self._rest: Iterator[FoundRun] | None = None

    async def page(self, size: int) -> list[FoundRun]:
        """The next `size` runs; a shorter page is the last.

        Raises `RunNotFound` if the run `before` does not exist.
        """
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
    """The runs that match the query, as JSON. Raises `InvalidRequest` for an unknown `before`."""
    size = MAX_LISTED if query.filters else query.limit
    newest = NewestRuns(gateway, owner, query.before, running=query.status == "running")
    listed: list[JsonObject] = []
    while True:
        try:
            runs = await newest.page(size)
        except RunNotFound:
            message = f"before: run {query.before[:100]!r} does not exist"
            raise InvalidRequest(message, "before") from None
        for number, run in enumerate(runs):
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)
            fields = await _matching_fields(gateway, run, query)
            if fields is not None:
                listed.append(fields)
            if len(listed) == query.limit:
                return listed
        # The filter `tool` reads the events of each run, so it looks at the first page only.
        if len(runs) < size or query.tool:
            return listed
        size = min(2 * size, MAX_PAGE)


async def _matching_fields(gateway: Gateway, run: FoundRun, query: RunQuery) -> JsonObject | None:
    """The run as JSON; None if it does not match the query."""
    fields = await run.fields(whole=False)
    if not query.matches(fields):
        return None
    if query.tool or query.summary:
        summary = await gateway.summaries.of(run)
        if summary is None or (query.tool and not summary.calls_tool(query.tool)):
            return None
        if query.summary:
            fields["summary"] = summary.fields()
    return fields
