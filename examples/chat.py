"""A chat that keeps the messages and the tool results between questions."""

from demo_tools import TOOLS
from upstream import QUESTION, models

from windlass import Client


def main() -> None:
    with models() as available:
        for model in available:
            with Client(**model) as client:
                chat = client.chat(tools=TOOLS, system="You are brief.")
                print(f"{client.model.name}: {chat.send(QUESTION).text}")
                with chat.stream("Thank you. Say it once more?") as stream:
                    for text in stream.text_deltas():
                        print(text, end="", flush=True)
                print(f"\n  ({len(chat.messages)} messages so far)")


if __name__ == "__main__":
    main()
