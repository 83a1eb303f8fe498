"""A gateway whose key has a budget, on a file or on NATS, and a process that is to be killed.

`python -m tests.gateway.limits.spending PLACE KEY LIMIT` starts a run of that key, says its id,
says when its third round waits for a tool, and waits to be killed.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from tests.support.asgi import Answer, bearer, post

from windlass import Usage, tool
from windlass.gateway import GatewayConfig
from windlass.gateway.app import App
from windlass.gateway.config import KeyConfig, ModelConfig, RunsConfig
from windlass.gateway.config.keys import key_hash
from windlass.gateway.gateway import Gateway
from windlass.testing import ScriptedModel, call, calls, say
from windlass.testing.script import Turn

ROUND = Usage(80, 20, 100)


@tool
def step(n: int) -> int:
    """Makes one step."""
    return n


@tool(idempotent=True)
async def wait() -> str:
    """Waits for ever in the process that is killed, and is done at once in another."""
    if __name__ == "__main__":
        print("waiting", flush=True)
        await asyncio.Event().wait()
    return "done"


def endless(request: Any) -> Turn:
    """Calls a tool in every round that offers one."""
    if not request.tools:
        return say("That is all.", usage=ROUND)
    return calls(call("step", n=len(request.messages)), usage=ROUND)


def two_steps_and_a_wait(request: Any) -> Turn:
    turns = [each for each in request.messages if each.role == "assistant"]
    return endless(request) if len(turns) < 2 else calls(call("wait"), usage=ROUND)


def spending_gateway(place: str, secret: str, limit: int, script: Any = endless) -> App:
    """`place` is the address of a NATS server or the path of a file."""
    key = KeyConfig(name="web", hash=key_hash(secret), max_tokens_per_month=limit)
    model = ModelConfig(name="m", target="scripted/m", tools=("step", "wait"), max_rounds=50)
    runs = RunsConfig(nats=(place,)) if "://" in place else RunsConfig(path=str(Path(place)))
    config = GatewayConfig(models={"m": model}, keys=(key,), runs=runs)
    return App(Gateway(config, models={"m": ScriptedModel(script)}, tools=[step, wait]))


async def ask(app: App, secret: str, path: str = "/v1/chat/completions") -> Answer:
    body = {"model": "m", "messages": [{"role": "user", "content": "Go"}]}
    return await post(app, body, path, headers=[bearer(secret)])


async def wait_to_be_killed(place: str, secret: str, limit: str) -> None:
    app = spending_gateway(place, secret, int(limit), two_steps_and_a_wait)
    answer = await ask(app, secret, "/v1/runs")
    print(answer.json["id"], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(wait_to_be_killed(*sys.argv[1:]))
