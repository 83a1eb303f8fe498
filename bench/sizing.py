"""Measures the figures of docs/sizing.md: bytes, memory and CPU of a run, a reader and an event.

CPU is the sum of all processes that take part. Bytes and memory are about the same on any machine.
The milliseconds depend on the machine.
"""

import asyncio

import sizing_gateways
from sizing_logs import RunCost, cost_in_each_log
from sizing_periodic import announcement, periodic_work


def show(quick: bool) -> None:
    show_logs(asyncio.run(cost_in_each_log(25 if quick else 100)))
    show_gateways(sizing_gateways.figures(*((200, 100) if quick else (1000, 500))))
    show_periodic_work(quick)


def show_logs(by_log: dict[str, RunCost]) -> None:
    columns = ["events", "messages", "kB", "B/event", "CPU ms", "NATS ms", "us/event"]
    title = "a run of one tool and 100 tokens in 2 s"
    print(f"\n{title:<44}" + "".join(f"{column:>9}" for column in columns))
    memory = by_log["memory"]
    for name, cost in by_log.items():
        more = (cost.cpu + cost.nats - memory.cpu) / cost.events * 1e6
        stored = f"{cost.messages:>9.0f}{cost.stored / 1e3:>9.1f}{cost.stored / cost.events:>9.0f}"
        cpu = f"{cost.cpu * 1e3:>9.2f}{cost.nats * 1e3:>9.2f}{more:>9.0f}"
        print(f"  {name:<42}{cost.events:>9.0f}{stored}{cpu}")


def show_gateways(figures: sizing_gateways.Figures) -> None:
    print(f"\n{'memory':<44}{'kB':>9}")
    sizes = {
        "a gateway": figures.gateway_mb * 1024,
        "a NATS server": figures.nats_mb * 1024,
        "a worker": figures.worker_mb * 1024,
        "a run that waits for its tool": figures.run_kb,
        "  memory of NATS for this run": figures.run_nats_kb,
        "a reader, at the run's gateway": figures.own_reader_kb,
        "a reader, at another gateway": figures.other_reader_kb,
    }
    for label, kilobytes in sizes.items():
        print(f"  {label:<42}{kilobytes:>9,.0f}")
    print(f"\n{'CPU':<44}{'us':>9}")
    seconds_by_kind = {
        "an event for a reader, at the run's gateway": figures.own_event,
        "an event for a reader, at another gateway": figures.other_event,
        "  CPU of NATS for this event": figures.other_event_nats,
        "an idle gateway, per second": figures.idle,
        "  while another gateway has the runs": figures.idle_with_runs,
    }
    for label, seconds in seconds_by_kind.items():
        print(f"  {label:<42}{seconds * 1e6:>9.0f}")


def show_periodic_work(quick: bool) -> None:
    costs, run_kb = asyncio.run(periodic_work(*((500, 50) if quick else (2000, 200))))
    costs["a worker's announcement, 3 tools"] = asyncio.run(announcement(500 if quick else 5000))
    print(f"\n{'periodic work':<44}{'CPU us':>9}{'NATS us':>9}")
    for label, cost in costs.items():
        print(f"  {label:<42}{cost.gateway * 1e6:>9.0f}{cost.nats * 1e6:>9.0f}")
    print(f"  {'memory of NATS for a stored run, kB':<42}{'':>9}{run_kb:>9.1f}")
