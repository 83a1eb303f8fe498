"""Stream text while the model writes it, and show tools while they run."""

from demo_tools import TOOLS
from upstream import QUESTION, models

from windlass import Client, Status, TextDelta, ToolRunEnded


def main() -> None:
    with models() as available:
        for model in available:
            with Client(**model) as client, client.stream(QUESTION, tools=TOOLS) as stream:
                print(f"{client.model.name}: ", end="")
                for event in stream:
                    match event:
                        case TextDelta(text=text):
                            print(text, end="", flush=True)
                        case Status(message=message):
                            print(f"\n  [{message}]")
                        case ToolRunEnded(response=response):
                            print(f"  [{response.name}: {response.text}]")
                        case _:
                            pass
                print(f"\n  ({stream.reply.usage.total_tokens} tokens)")


if __name__ == "__main__":
    main()
