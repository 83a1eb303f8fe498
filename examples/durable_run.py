"""Start a run in another process, kill it while a tool is running, and resume the run here."""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import Any

import demo_tools
from upstream import QUESTION, models

from windlass import Client, ToolRunStarted, tool

IN_THE_CHILD = len(sys.argv) == 3


@tool(after=["get_weather", "calculate"], on_interrupt="retry")
def get_time(city: str) -> str:
    """The local time in a city. It has no side effects, so it may run again."""
    if IN_THE_CHILD:
        print("get_time has started", flush=True)
        time.sleep(60)  # the process is killed before this ends
    return "18:30"


TOOLS = [demo_tools.get_weather, demo_tools.calculate, get_time]


def child(log: str, model: str) -> None:
    with Client(**json.loads(model), log=log) as client:
        client.generate(QUESTION, tools=TOOLS)


def kill_a_child_while_a_tool_runs(log: str, model: dict[str, Any]) -> None:
    command = [sys.executable, __file__, log, json.dumps(model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        print(f"in the child: {process.stdout.readline().strip()}")
        process.kill()


def main() -> None:
    with models() as available, tempfile.TemporaryDirectory() as directory:
        log = f"{directory}/runs.db"
        kill_a_child_while_a_tool_runs(log, available[0])
        with Client(**available[0], log=log) as client:
            [run] = client.resume(tools=TOOLS)
            print(run.result().text)
            starts = Counter(
                event.call.name
                for event in client.subscribe(run.id)
                if isinstance(event, ToolRunStarted)
            )
            print(", ".join(f"{name} started {times}x" for name, times in starts.items()))


if __name__ == "__main__" and IN_THE_CHILD:
    child(*sys.argv[1:])
elif __name__ == "__main__":
    main()
