"""Tries an installed Windlass: `python -I smoke.py EXTRA`. Prints one line.

Runs in a clean environment that has the wheel and one extra, and nothing of the repository. It uses
no network: the model is scripted, and servers listen on this machine.
"""

import asyncio
import json
import re
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import windlass
from windlass import Client
from windlass.testing import FakeOpenAI, ScriptedModel, call

BIN = Path(sysconfig.get_path("scripts"))
SCRIPT = [call("get_weather", city="Paris"), "It is sunny in Paris."]


TOOLS = '''\
from windlass import tool


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"
'''


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def core() -> str:
    """Tries a streamed answer with a tool over HTTP, the parser, and the commands."""
    assert "site-packages" in windlass.__file__, windlass.__file__
    with FakeOpenAI(SCRIPT) as fake:
        client = Client("openai/gpt-x", base_url=fake.base_url, api_key="k")
        with client, client.stream("Weather?", tools=[get_weather]) as stream:
            assert "".join(stream.text_deltas()) == "It is sunny in Paris."
    parsed = windlass.parse('<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>')
    assert parsed.calls[0].arguments == {"a": 1}
    shown = command("--version")
    assert shown == f"windlass {windlass.__version__}\n", shown
    assert "windlass doctor" in command("--help")
    return "a streamed answer with a tool"


def command(*words: str, codes: tuple[int, ...] = (0,)) -> str:
    program = BIN / ("windlass.exe" if sys.platform == "win32" else "windlass")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode in codes, done.stderr
    return done.stdout


def aistudio() -> str:
    import playwright.async_api  # noqa: F401

    from windlass.testing.aistudio import FakeAIStudio  # noqa: F401

    return "playwright and the replica of the page"


def cli() -> str:
    assert "windlass" in command("completion", "bash")
    import prompt_toolkit  # noqa: F401
    import rich  # noqa: F401

    return "completion"


def fleet() -> str:
    """Tries a worker's tool over the bundled NATS server."""
    from windlass.messaging.embedded import NatsServer
    from windlass.worker import Worker

    async def call_it() -> None:
        async with (
            NatsServer() as server,
            Worker([get_weather], nats=server.url, session="smoke"),
        ):
            toolset = windlass.remote("smoke", nats=server.url)
            client = windlass.AsyncClient(ScriptedModel(SCRIPT), tools=[toolset])
            reply = await client.generate("Weather?")
            assert reply.results[0].output == "sunny in Paris", reply.results
            await client.aclose()
            await toolset.aclose()

    asyncio.run(call_it())
    return "a call of a worker over NATS"


def gateway() -> str:
    """Checks that `windlass serve` answers with a server tool, and serves the console."""
    folder = Path.cwd() / "smoke-gateway"
    folder.mkdir(exist_ok=True)
    (folder / "tools.py").write_text(TOOLS, "utf-8")
    with FakeOpenAI(SCRIPT) as fake:
        (folder / "windlass.toml").write_text(
            f'[server]\nport = 0\n[models.m]\ntarget = "openai/x"\nbase_url = "{fake.base_url}"\n'
            'api_key_env = "PATH"\ntools = ["get_weather"]\n[tools]\nmodules = ["tools.py"]\n'
        )
        server = subprocess.Popen(
            [BIN / "windlass", "serve"],
            cwd=folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            address = listening(server)
            body = {"model": "m", "messages": [{"role": "user", "content": "Weather?"}]}
            request = urllib.request.Request(
                f"{address}/v1/chat/completions",
                json.dumps(body).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = json.load(answer)["choices"][0]["message"]["content"]
            assert text == "It is sunny in Paris.", text
            with urllib.request.urlopen(address, timeout=60) as page:
                assert b"<title>" in page.read()
        finally:
            server.terminate()
            server.communicate(timeout=60)
    return "an answer of `windlass serve` with a server tool, and the console"


def listening(server: "subprocess.Popen[str]") -> str:
    assert server.stdout
    limit = time.monotonic() + 60
    shown = ""
    for line in server.stdout:
        shown += line
        if found := re.search(r"Windlass listens on (http://\S+)", line):
            return found[1].rstrip("/")
        assert time.monotonic() < limit, "the gateway did not start"
    raise AssertionError(f"the gateway exited: {shown}")


def gguf() -> str:
    import xllamacpp

    return f"xllamacpp {xllamacpp.__version__}"


def local() -> str:
    client = Client("local/default", tools=[get_weather], max_tokens=60)
    reply = client.generate("What is the weather in Paris?", tool_choice="get_weather")
    assert reply.results[0].output.startswith("sunny in"), reply.results
    return "a call of the embedded model"


def mcp() -> str:
    """Tries the tools of Windlass's own MCP server over stdio."""
    Path("smoke_tools.py").write_text(TOOLS, "utf-8")
    server = windlass.mcp(f"{BIN / 'windlass'} mcp --tools smoke_tools.py", name="own")
    script = [call("own__get_weather", city="Paris"), "It is sunny in Paris."]
    with server, Client(ScriptedModel(script), tools=[server]) as client:
        reply = client.generate("Weather?")
    assert "sunny in Paris" in str(reply.results[0].output), reply.results
    return "a call of an MCP server over stdio"


def otel() -> str:
    from windlass.gateway.observe.tracing import tracing_from

    assert tracing_from({}) is None
    assert tracing_from({"OTEL_TRACES_EXPORTER": "console"}) is not None
    return "traces"


def everything() -> str:
    for each in (aistudio, cli, fleet, gateway, gguf, mcp, otel):
        each()
    shown = command("doctor", "--json", codes=(0, 1))
    states = {check["name"]: check["state"] for check in json.loads(shown)["checks"]}
    assert states["windlass[all]"] == "ok", shown
    return "all of the above, and `windlass doctor`"


SMOKES: dict[str, Callable[[], str]] = {
    "core": lambda: "",
    "aistudio": aistudio,
    "cli": cli,
    "fleet": fleet,
    "gateway": gateway,
    "gguf": gguf,
    "local": local,
    "mcp": mcp,
    "otel": otel,
    "all": everything,
}


if __name__ == "__main__":
    parts = [core(), SMOKES[sys.argv[1]]()]
    print("; ".join(part for part in parts if part))
