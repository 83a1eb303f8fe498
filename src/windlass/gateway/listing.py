"""The runs of a key, and which of them are asked for."""

from collections.abc import Mapping
from typing import cast, get_args

from msgspec import Struct

from windlass.events import StopReason
from windlass.gateway.exchange import query_number
from windlass.gateway.found import FoundRun, KeptHere, KnownHere, RunStatus
from windlass.gateway.gateway import Gateway
from windlass.gateway.problems import bad_request
from windlass.models.fields import JsonObject

__all__ = ["RunQuery", "listed_runs", "read_query", "runs_of"]

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
        return any((self.before, self.status, self.reason, self.model, self.tool, self.q))

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


async def runs_of(gateway: Gateway, owner: str, limit: int | None = None) -> list[FoundRun]:
    """Newest first: those that go here, and those that the log knows."""
    here = {run.id: KnownHere(run) for run in gateway.runs.all() if run.owner == owner}
    if gateway.durable is None:
        return cast("list[FoundRun]", list(reversed(here.values()))[:limit])
    records = await gateway.durable.log.list(owner=owner, limit=limit)
    return [here.get(record.id) or KeptHere(record, gateway.durable) for record in records]


async def listed_runs(gateway: Gateway, owner: str, query: RunQuery) -> list[JsonObject]:
    """What is told of the runs that are asked for. Raises `Refused`.

    Whether a run has called a tool stands in its events: those of so many runs are read at most.
    """
    runs = await runs_of(gateway, owner, None if query.chooses else query.limit)
    listed: list[JsonObject] = []
    read = 0
    for run in _after(runs, query.before):
        fields = await run.fields(whole=False)
        if not query.wants(fields):
            continue
        if query.tool or query.summary:
            summary = await gateway.summaries.of(run)
            read += 1
            if summary is not None and query.summary:
                fields["summary"] = summary.fields()
            if query.tool and not (summary and summary.calls_tool(query.tool)):
                fields = None
        if fields is not None:
            listed.append(fields)
        if len(listed) == query.limit or read == LISTED:
            break
    return listed


def _after(runs: list[FoundRun], before: str) -> list[FoundRun]:
    if not before:
        return runs
    for position, run in enumerate(runs, start=1):
        if run.id == before:
            return runs[position:]
    raise bad_request(f"before: no run {before[:100]!r} is known here", "before")
