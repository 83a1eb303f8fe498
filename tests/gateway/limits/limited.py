"""A gateway of a fleet whose key and model have limits.

`python -m tests.gateway.limits.limited URL KEY` starts a run of that key,
reports it, and waits to be killed.
"""

import asyncio
import sys
from collections.abc import Iterable
from typing import Any

from tests.support.asgi import Answer, bearer, post

from windlass.gateway import GatewayConfig
from windlass.gateway.app import App
from windlass.gateway.config import KeyConfig, ModelConfig, RunsConfig
from windlass.gateway.config.keys import key_hash
from windlass.gateway.gateway import Gateway
from windlass.gateway.observe.tracing import Tracing
from windlass.testing import Gate, ScriptedModel, slow

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def limited_gateway(
    url: str,
    script: Any,
    keys: Iterable[KeyConfig] = (),
    *,
    tools: tuple[Any, ...] = (),
    tracing: Tracing | None = None,
    **model: Any,
) -> App:
    names = tuple(each.name for each in tools)
    served = ModelConfig(name="m", target="scripted/m", tools=names, **model)
    config = GatewayConfig(models={"m": served}, keys=tuple(keys), runs=RunsConfig(nats=(url,)))
    models = {"m": ScriptedModel(script)}
    return App(Gateway(config, models=models, tools=tools, tracing=tracing))


def limited_key(secret: str, **fields: Any) -> KeyConfig:
    return KeyConfig(name="web", hash=key_hash(secret), **fields)


async def ask(app: App, secret: str = "", path: str = "/v1/chat/completions") -> Answer:
    return await post(app, BODY, path, headers=[bearer(secret)] if secret else ())


async def hold_a_place(url: str, secret: str) -> None:
    key = limited_key(secret, max_running=1)
    app = limited_gateway(url, [slow("Never.", Gate())], [key])
    answer = await ask(app, secret, "/v1/runs")
    print(answer.status, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(hold_a_place(sys.argv[1], sys.argv[2]))
