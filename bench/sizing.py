"""The figures of docs/sizing.md: bytes, memory and CPU of one run, reader and event.

CPU is that of all processes that take part. Bytes and memory are about the same on any machine;
the milliseconds are those of this one.
"""

import asyncio

import sizing_gateways
from sizing_logs import Kept, kept_of_each
from sizing_tending import announcement, tending


def show(quick: bool) -> None:
    show_kept(asyncio.run(kept_of_each(25 if quick else 100)))
    show_gateways(sizing_gateways.figures(*((200, 100) if quick else (1000, 500))))
    show_tending(quick)


def show_kept(by_log: dict[str, Kept]) -> None:
    columns = ["events", "messages", "kB", "B/event", "CPU ms", "NATS ms", "us/event"]
    title = "a run of one tool and 100 tokens in 2 s"
    print(f"\n{title:<44}" + "".join(f"{column:>9}" for column in columns))
    memory = by_log["memory"]
    for name, its in by_log.items():
        more = (its.cpu + its.nats - memory.cpu) / its.events * 1e6
        left = f"{its.messages:>9.0f}{its.stored / 1e3:>9.1f}{its.stored / its.events:>9.0f}"
        spent = f"{its.cpu * 1e3:>9.2f}{its.nats * 1e3:>9.2f}{more:>9.0f}"
        print(f"  {name:<42}{its.events:>9.0f}{left}{spent}")


def show_gateways(its: sizing_gateways.Figures) -> None:
    print(f"\n{'memory':<44}{'kB':>9}")
    sizes = {
        "a gateway": its.gateway_mb * 1024,
        "a NATS server": its.nats_mb * 1024,
        "a worker": its.worker_mb * 1024,
        "a run that waits for its tool": its.run_kb,
        "  and what NATS has of it": its.run_nats_kb,
        "a reader, at the gateway of the run": its.here_kb,
        "a reader, at another": its.there_kb,
    }
    for what, kilobytes in sizes.items():
        print(f"  {what:<42}{kilobytes:>9,.0f}")
    print(f"\n{'CPU':<44}{'us':>9}")
    spent = {
        "an event for a reader, at the run's gateway": its.here_event,
        "an event for a reader, at another": its.there_event,
        "  and NATS for it": its.there_nats,
        "an idle gateway, each second": its.idle,
        "  and beside these runs of another": its.idle_beside,
    }
    for what, seconds in spent.items():
        print(f"  {what:<42}{seconds * 1e6:>9.0f}")


def show_tending(quick: bool) -> None:
    found, kept_kb = asyncio.run(tending(*((500, 50) if quick else (2000, 200))))
    found["a worker's announcement, 3 tools"] = asyncio.run(announcement(500 if quick else 5000))
    print(f"\n{'what is done again and again':<44}{'CPU us':>9}{'NATS us':>9}")
    for what, cost in found.items():
        print(f"  {what:<42}{cost.gateway * 1e6:>9.0f}{cost.nats * 1e6:>9.0f}")
    print(f"  {'memory of NATS for a run that is kept, kB':<42}{'':>9}{kept_kb:>9.1f}")
