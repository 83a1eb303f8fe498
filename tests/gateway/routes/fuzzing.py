"""Helpers of the fuzz tests: an application in its own thread, and the number of examples."""

import asyncio
import json

from hypothesis import HealthCheck, settings
from tests.support.asgi import Answer, post, request
from tests.support.thoroughness import examples

from windlass.gateway import App

SHORT = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]}
FUZZ = settings(
    max_examples=examples(40),
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


class Gateway:
    """An application with its event loop."""

    def __init__(self, app: App, runner: asyncio.Runner) -> None:
        self._app, self._runner = app, runner

    def post(self, body: bytes, path: str = "/v1/chat/completions") -> Answer:
        return self._runner.run(post(self._app, body, path))

    def request(self, method: str, path: str, *headers: tuple[bytes, bytes]) -> Answer:
        pieces = [encoded(SHORT)]
        return self._runner.run(request(self._app, method, path, headers=headers, pieces=pieces))


def encoded(value: object) -> bytes:
    """Invalid JSON too: half surrogate pairs and NaN are not escaped."""
    return json.dumps(value).encode()
