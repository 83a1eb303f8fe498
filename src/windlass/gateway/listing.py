"""The runs of a key, and which of them are asked for."""

from collections.abc import Mapping
from typing import get_args

from msgspec import Struct

from windlass.errors import RunNotFound
from windlass.events import StopReason
from windlass.gateway.exchange import query_number
from windlass.gateway.found import FoundRun, KeptHere, KnownHere, RunStatus
from windlass.gateway.gateway import Gateway
from windlass.gateway.problems import bad_request
from windlass.models.fields import JsonObject

__all__ = ["RunQuery", "listed_runs", "newest_runs", "read_query"]

LISTED = 1_000
"""How many runs a list has at most, unless it is asked for fewer."""


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
    limit = query_number(given.get("limit"), "limit")
    return RunQuery(
        limit=min(limit or LISTED, LISTED),
        before=given.get("before", ""),
        status=_word(given, "status", get_args(RunStatus)),
        reason=_word(given, "reason", get_args(StopReason)),
        model=given.get("model", ""),
        tool=given.get("tool", ""),
        q=given.get("q", ""),
        summary=_word(given, "summary", ("true", "false")) == "true",
    )


def _word(given: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    word = given.get(name, "")
    if word and word not in words:
        raise bad_request(f"{name}: must be {', '.join(words[:-1])} or {words[-1]}", name)
    return word


async def newest_runs(gateway: Gateway, owner: str, limit: int, before: str = "") -> list[FoundRun]:
    """So many runs of a key, newest first; with `before`, of those that began before that run.

    They go here, or the log knows them. Raises `RunNotFound` if the run is unknown.
    """
    here = {run.id: KnownHere(run) for run in gateway.runs.all() if run.owner == owner}
    durable = gateway.durable
    if durable is None:
        ids = list(reversed(here))
        if before and before not in here:
            raise RunNotFound(f"no run {before!r} is known here")
        begin = ids.index(before) + 1 if before else 0
        return [here[each] for each in ids[begin : begin + limit]]
    time = (await durable.find(before, owner)).created if before else None
    records = await durable.log.list(owner=owner, before=time, limit=limit)
    return [here.get(record.id) or KeptHere(record, durable) for record in records]


async def listed_runs(gateway: Gateway, owner: str, query: RunQuery) -> list[JsonObject]:
    """What is told of the runs that are asked for. Raises `Refused`."""
    size = LISTED if query.chooses else query.limit
    listed: list[JsonObject] = []
    before, more = query.before, True
    while more:
        try:
            runs = await newest_runs(gateway, owner, size, before)
        except RunNotFound:
            raise bad_request(f"before: no run {before[:100]!r} is known here", "before") from None
        for run in runs:
            fields = await _told(gateway, run, query)
            if fields is not None:
                listed.append(fields)
            if len(listed) == query.limit:
                return listed
        # Whether a tool was called stands in a run's events: not all that are kept can be read.
        more = len(runs) == size and not query.tool
        before = runs[-1].id if runs else ""
    return listed


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
