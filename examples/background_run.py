"""Start a background run and read its events twice, once from the middle."""

from demo_tools import TOOLS
from upstream import QUESTION, models

from windlass import Client, TextDelta


def main() -> None:
    with models() as found, Client(**found[0]) as client:
        run = client.start(QUESTION, tools=TOOLS)
        first = list(client.subscribe(run.id))
        late = list(client.subscribe(run.id, after=first[-1].seq // 2))
        print(f"{run.id}: {len(first)} events, a late reader had {len(late)} of them")
        print("".join(event.text for event in first if isinstance(event, TextDelta)))


if __name__ == "__main__":
    main()
