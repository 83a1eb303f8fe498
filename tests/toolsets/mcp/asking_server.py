"""A server of the older era, without any library, whose tool `ask` asks a question.

`python asking_server.py DIRECTORY`: files in the directory say when a call goes on (`ask-NAME`,
`end-NAME`), and the server writes what happened (`started-NAME`, `answered-NAME`). Each call has a
thread, so that any order is possible. It ignores cancellations.
"""

import json
import sys
import threading
import time
from pathlib import Path

DIRECTORY = Path(sys.argv[-1])
FORM = {"type": "object", "properties": {"secret": {"type": "string"}}, "required": ["secret"]}
lock = threading.Lock()
answers: dict = {}


def send(**message: object) -> None:
    with lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def wait_for(name: str) -> None:
    while not (DIRECTORY / name).exists():
        time.sleep(0.001)


def asked(name: str) -> tuple[str, dict]:
    """What a call asks for: a person's answer, a model's answer, or the roots."""
    if name.startswith("sample"):
        message = {"role": "user", "content": {"type": "text", "text": f"{name}?"}}
        return "sampling/createMessage", {"messages": [message], "maxTokens": 50}
    if name.startswith("roots"):
        return "roots/list", {}
    return "elicitation/create", {"message": f"{name}?", "requestedSchema": FORM}


def ask(request: object, name: str) -> None:
    (DIRECTORY / f"started-{name}").write_text("yes")
    wait_for(f"ask-{name}")
    question, answered = f"question-{name}", threading.Event()
    answers[question] = answered
    method, params = asked(name)
    send(id=question, method=method, params=params)
    answered.wait()
    said = answers[question]
    temporary = DIRECTORY / f"writing-{name}"
    temporary.write_text(json.dumps(said))
    temporary.rename(DIRECTORY / f"answered-{name}")
    wait_for(f"end-{name}")
    send(id=request, result={"content": [{"type": "text", "text": json.dumps(said)}]})


def answer(message: dict) -> None:
    request, params = message.get("id"), message.get("params") or {}
    match message.get("method"):
        case "initialize":
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "resources": {}},
                "instructions": "Ask politely.",
                "serverInfo": {"name": "asking", "version": "1"},
            }
            send(id=request, result=result)
        case "tools/list":
            schema = {"type": "object", "properties": {"name": {"type": "string"}}}
            send(id=request, result={"tools": [{"name": "ask", "inputSchema": schema}]})
        case "tools/call":
            name = params["arguments"]["name"]
            threading.Thread(target=ask, args=(request, name), daemon=True).start()
        case None if request in answers:
            said = message.get("result") or message.get("error")
            answers[request], answered = said, answers[request]
            answered.set()
        case "resources/read":
            content = {"uri": params["uri"], "text": f"the text of {params['uri']}"}
            send(id=request, result={"contents": [content]})
        case "ping":
            send(id=request, result={})
        case method if request is not None:
            send(id=request, error={"code": -32601, "message": f"no {method}"})


for line in sys.stdin:
    answer(json.loads(line))
