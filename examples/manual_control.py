"""Read the calls, execute them yourself, and continue."""

from demo_tools import TOOLS
from upstream import QUESTION, models

from windlass import Client


def main() -> None:
    with models() as available:
        for model in available:
            with Client(**model) as client:
                turn = client.generate(QUESTION, tools=TOOLS, execute_tools=False)
                print(f"{turn.model} calls: {', '.join(call.name for call in turn.calls)}")
                results = client.execute(turn.calls)
                print(client.generate(turn.follow_up(results), tools=TOOLS).text)


if __name__ == "__main__":
    main()
