"""Start a background run and read its events twice, once from the middle."""

from demo_tools import TOOLS
from upstream import QUESTION, models

from windlass import Client, TextDelta


def main() -> None:
    with models() as available, Client(**available[0]) as client:
        run = client.start(QUESTION, tools=TOOLS)
        events = list(client.subscribe(run.id))
        second_half = list(client.subscribe(run.id, after=events[-1].seq // 2))
        print(f"{run.id}: {len(events)} events; a second reader received {len(second_half)}")
        print("".join(event.text for event in events if isinstance(event, TextDelta)))


if __name__ == "__main__":
    main()
