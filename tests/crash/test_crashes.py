"""The gateway is killed, at any moment, again and again: no run is lost, and nothing is done twice.

`WINDLASS_CRASH_KILLS` says how often, and `WINDLASS_CRASH_SEED` repeats the choices of a drill that
has failed; what the processes make of their time is not repeated.
"""

import os
import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from tests.crash.drill import Drill, drill_of
from tests.crash.gateway_process import GatewayProcess
from tests.crash.scenarios import model
from tests.crash.verdict import Ledgers, judge

from windlass.events import event_to_json
from windlass.runs.sqlite import SQLiteLog
from windlass.testing import FakeOpenAI

KILLS = int(os.environ.get("WINDLASS_CRASH_KILLS", "10"))
SEED = int(os.environ.get("WINDLASS_CRASH_SEED", "0")) or random.randrange(1, 10**6)


@pytest.mark.timeout(60 + 20 * KILLS)
async def test_every_run_ends_rightly_however_often_the_gateway_is_killed(tmp_path: Path) -> None:
    print(f"WINDLASS_CRASH_SEED={SEED}")
    async with FakeOpenAI(model) as upstream:
        gateway = GatewayProcess(tmp_path, upstream.base_url)
        async with drill_of(gateway, SEED) as drill:
            await drill.crash(KILLS)
            figures = await judged(drill, gateway)
    print(
        msgspec.json.format(
            msgspec.json.encode({**figures, "ends in order": drill.ends, "kills": drill.kills})
        ).decode()
    )
    assert "Traceback" not in gateway.said.read_text()


async def judged(drill: Drill, gateway: GatewayProcess) -> Counter[str]:
    """The figures of all runs, each of which is as it should be."""
    figures = Counter[str]()
    ledgers = Ledgers(gateway.ledgers)
    log = SQLiteLog(gateway.file)
    records = await log.list()
    assert drill.readers.keys() <= {record.id for record in records}
    for record in records:
        events = await log.read(record.id)
        background = record.origin.get("background", False)
        figures += judge(events, ledgers, drill.decisions, background=background)
        written = [(event.seq, event_to_json(event).decode()) for event in events]
        assert await drill.whole(record.id) == written
        for reader in drill.readers.get(record.id, ()):
            assert list(reader.seen) == written, f"a reader of {record.id} has seen something else"
            figures["readers"] += 1
            figures["readers' connections"] += reader.connections
        shown = await drill.shown(record.id)
        assert (shown["stop_reason"], shown["events"]) == (record.reason, len(events))
    await log.aclose()
    assert {key.partition(":")[0] for key in ledgers.keys} <= {record.id for record in records}
    return figures
