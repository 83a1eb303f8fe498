"""Check that tools are executed: ask for `test_tool`, and print the log of Windlass."""

import logging
import os
import sys

from windlass import Client, tool
from windlass.testing import ScriptedModel, call

QUESTION = 'Please use test_tool with message "Hello" and count 2'


@tool(name="test_tool", idempotent=True)
def repeat(message: str, count: int = 1) -> str:
    """Repeats a message, to test that tools are called.

    Args:
        message: The message.
        count: How many times.
    """
    return " ".join([message] * max(0, min(count, 100)))


def main() -> None:
    log = logging.getLogger("windlass.loop")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("[info] %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    model = os.environ.get("MODEL") or ScriptedModel(
        [call("test_tool", message="Hello", count=2), "The tool returned: Hello Hello"]
    )
    try:
        with Client(model) as client:
            print(client.generate(QUESTION, tools=[repeat]).text)
    finally:
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)


if __name__ == "__main__":
    main()
