"""The smallest MCP server, of the older era, without any library: it starts quickly.

`python tiny_server.py DIRECTORY` records its events in files of the directory. With the variable
`CHANGES` it begins with one tool, `become`, which adds others; if it is `nothing yet`, with none.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

DIRECTORY = Path(sys.argv[-1])
SAYS = os.environ.get("SAYS", "Adds two numbers.")
NUMBER = {"type": "integer"}
TOOLS = {
    "add": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]},
    "dies": {"type": "object", "properties": {}},
    "waits": {"type": "object", "properties": {}},
    "ticks": {"type": "object", "properties": {"times": NUMBER}},
    "garbles": {"type": "object", "properties": {}},
    "long": {"type": "object", "properties": {"size": NUMBER}},
    "hangs": {"type": "object", "properties": {}},
    "broken": {"type": "object", "properties": {"a": {"type": "nonsense"}}},
}
MADE = {}
"""What the tools say that it was given."""
if "CHANGES" in os.environ:
    TOOLS = {"become": {"type": "object", "properties": {"tools": {"type": "object"}}}}
    if os.environ["CHANGES"] == "nothing yet":
        TOOLS = {}


def send(**message: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def tick(request: object, token: object, times: int) -> None:
    for count in range(times):
        params = {"progressToken": token, "progress": count}
        send(method="notifications/progress", params=params)
        time.sleep(0.1)
    send(id=request, result={"content": [{"type": "text", "text": "ticked"}]})


def call(request: object, name: str, arguments: dict, meta: dict) -> None:
    match name:
        case "add":
            words = str(arguments["a"] + arguments["b"])
            send(id=request, result={"content": [{"type": "text", "text": words}]})
        case "become":
            MADE.clear()
            MADE.update(arguments["tools"])
            send(method="notifications/tools/list_changed")
            send(id=request, result={"content": [{"type": "text", "text": "done"}]})
        case _ if name in MADE:
            send(id=request, result={"content": [{"type": "text", "text": f"{name} ran"}]})
        case "garbles":
            sys.stdout.buffer.write(b"caf\xe9 \xff\n")
            sys.stdout.buffer.flush()
            answer = {"content": [{"type": "text", "text": "caf#"}]}
            message = json.dumps({"jsonrpc": "2.0", "id": request, "result": answer})
            sys.stdout.buffer.write(message.encode().replace(b"#", b"\xe9") + b"\n")
            sys.stdout.buffer.flush()
        case "long":
            words = "x" * arguments["size"]
            send(id=request, result={"content": [{"type": "text", "text": words}]})
        case "hangs":
            threading.Event().wait()
        case "dies":
            os._exit(3)
        case "ticks":
            token = meta.get("progressToken")
            threading.Thread(target=tick, args=(request, token, arguments["times"])).start()
        case _:
            (DIRECTORY / "waiting").write_text("yes")


def answer(message: dict) -> None:
    request, params = message.get("id"), message.get("params") or {}
    match message.get("method"):
        case "initialize":
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "tests/tiny", "version": "1"},
            }
            send(id=request, result=result)
        case "tools/list":
            tools = [
                {"name": name, "description": SAYS, "inputSchema": schema}
                for name, schema in TOOLS.items()
            ]
            empty = {"type": "object", "properties": {}}
            tools += [
                {"name": name, "description": says, "inputSchema": empty}
                for name, says in MADE.items()
            ]
            send(id=request, result={"tools": tools})
        case "tools/call":
            call(request, params["name"], params.get("arguments") or {}, params.get("_meta") or {})
        case "notifications/cancelled":
            (DIRECTORY / "cancelled").write_text("yes")
        case method if request is not None:
            send(id=request, error={"code": -32601, "message": f"no {method}"})


with (DIRECTORY / "starts").open("a") as starts:
    starts.write(f"{os.getpid()}\n")
for line in sys.stdin:
    answer(json.loads(line))
