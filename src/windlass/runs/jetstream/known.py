"""A cache of run records, indexed by run and by chat. Pure."""

from collections.abc import Iterable

from windlass.runs.records import RunRecord, start_order


class KnownRuns:
    """Cached run records. Finds the open runs, and those of a chat, without scanning all."""

    def __init__(self) -> None:
        self._records: dict[str, RunRecord] = {}
        self._revisions: dict[str, int] = {}
        self._by_chat: dict[str, set[str]] = {}
        self._open: set[str] = set()

    def revision(self, run_id: str) -> int | None:
        """Returns the revision of the cached record; None if there is none."""
        return self._revisions.get(run_id)

    def put(self, record: RunRecord, revision: int) -> None:
        self.drop(record.id)
        self._records[record.id] = record
        self._revisions[record.id] = revision
        if record.chat:
            self._by_chat.setdefault(record.chat, set()).add(record.id)
        if record.ended is None:
            self._open.add(record.id)

    def drop(self, run_id: str) -> None:
        record = self._records.pop(run_id, None)
        if record is None:
            return
        del self._revisions[run_id]
        self._open.discard(run_id)
        if record.chat:
            runs = self._by_chat[record.chat]
            runs.discard(run_id)
            if not runs:
                del self._by_chat[record.chat]

    def found(
        self, owner: str | None, chat: str | None, open: bool | None, before: RunRecord | None
    ) -> list[RunRecord]:
        """Returns the runs that may match. Records of open runs may be older than their events."""
        ids: Iterable[str] = self._records
        if chat:
            ids = self._by_chat.get(chat, ())
        elif open:
            ids = self._open
        return [
            record
            for record in map(self._records.__getitem__, ids)
            if owner in (None, record.owner)
            and chat in (None, record.chat)
            and (before is None or start_order(record) < start_order(before))
            and not (open and record.ended is not None)
        ]
