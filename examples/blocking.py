"""Ask a question, let Windlass execute the tools, and read the answer."""

from demo_tools import TOOLS
from upstream import QUESTION, models

from windlass import Client


def main() -> None:
    with models() as available:
        for model in available:
            with Client(**model) as client:
                reply = client.generate(QUESTION, tools=TOOLS)
            print(f"{reply.model}: {reply.text}")
            for call, result in zip(reply.calls, reply.results, strict=True):
                print(f"  {call.name}({call.json}) -> {result.text}")


if __name__ == "__main__":
    main()
