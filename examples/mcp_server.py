"""Use the tools of an MCP server like local functions.

The server in this example is Windlass itself. Any other command or URL works the same way.
"""

import sys
import tempfile
from pathlib import Path

from windlass import Client, mcp
from windlass.testing import ScriptedModel, call

SERVER = [sys.executable, "-m", "windlass", "mcp", "--name", "demo"]
TOOLS = str(Path(__file__).parent / "demo_tools.py")


def main() -> None:
    model = ScriptedModel([call("demo__get_weather", city="Paris"), "It is sunny in Paris."])
    with (
        tempfile.TemporaryDirectory() as state,
        mcp([*SERVER, "--tools", TOOLS], state_dir=state) as demo,
        Client(model) as client,
    ):
        print("the server offers:", ", ".join(tool.name for tool in demo.list()))
        reply = client.generate("Weather in Paris?", tools=[demo])
        print(reply.results[0].output)
        print(reply.text)


if __name__ == "__main__":
    main()
