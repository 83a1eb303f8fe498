"""Two users of one gateway: a stdio server that asks questions, and a server with OAuth.

Each run asks its user a question, and then tells whose login it uses. Nothing crosses.
"""

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.asgi import bearer, post
from tests.toolsets.mcp.oauth_server import OAuthServer
from tests.toolsets.mcp.serving import appearing
from tests.toolsets.mcp.test_mcp_oauth import USERS, folder, guarded, log_in
from tests.toolsets.mcp.test_mcp_questions import INTERLEAVINGS, SERVER, alone, orders

from windlass import Reply
from windlass.events import ApprovalRequested
from windlass.gateway import create_app
from windlass.gateway.app import App
from windlass.gateway.config import load_config
from windlass.model import ModelRequest
from windlass.testing import ScriptedModel, call

pytestmark = pytest.mark.process
__all__ = ["folder", "guarded"]


def script(request: ModelRequest) -> Any:
    """Asks, then tells whose login it uses."""
    key = request.messages[0].text
    answered = sum(len(message.responses) for message in request.messages)
    return [call("asking__ask", name=key), call("guarded__whoami"), "Done."][answered]


class User:
    """A user with a key, who answers the questions of their runs with their own secret."""

    def __init__(self, name: str, app: App, directory: Path) -> None:
        self.name, self._app, self._directory = name, app, directory
        self.asked: list[str] = []
        self._run: asyncio.Task[Reply] | None = None

    async def step(self, step: str, key: str) -> None:
        if step == "start":
            body = {"model": "m", "messages": [{"role": "user", "content": key}]}
            started = await post(self._app, body, "/v1/runs", [bearer(f"key-{self.name}")])
            self._run = asyncio.create_task(self._followed(started.json["id"]))
            await asyncio.to_thread(appearing, self._directory / f"started-{key}")
        elif step == "ask":
            (self._directory / f"ask-{key}").touch()
            await asyncio.to_thread(appearing, self._directory / f"answered-{key}")
        else:
            (self._directory / f"end-{key}").touch()
            assert self._run is not None
            reply = await self._run
            assert reply.results[1].output == {"result": self.name}

    def answer(self, key: str) -> dict[str, Any]:
        return json.loads((self._directory / f"answered-{key}").read_text())

    async def _followed(self, run_id: str) -> Reply:
        run: Any = self._app.gateway.runs.get(run_id)
        async for event in run.events():
            if isinstance(event, ApprovalRequested):
                assert isinstance(event.call.arguments, dict)
                self.asked.append(event.call.arguments["message"])
                run.approve(event.call.id, arguments={"secret": f"secret of {self.name}"})
        return await run.result()


async def test_nothing_crosses_between_the_runs_of_two_users(
    folder: Path, guarded: OAuthServer, tmp_path: Path
) -> None:
    await asyncio.to_thread(log_in, guarded, *USERS)
    command = [sys.executable, "-I", "-S", str(SERVER), str(tmp_path)]
    file = folder / "windlass.toml"
    text = file.read_text().replace('"guarded__whoami"', '"guarded__whoami", "asking__ask"')
    file.write_text(f"""{text}
[mcp.asking]
command = {json.dumps(command)}
state_dir = {json.dumps(str(tmp_path))}
""")
    app = create_app(load_config(file, {}), models={"m": ScriptedModel(script)})
    users = {name: User(name, app, tmp_path) for name in USERS}
    chosen = random.Random(22)
    every = orders()
    said = {True: 0, False: 0}
    for number in range(INTERLEAVINGS):
        order = every[number] if number < len(every) else chosen.choice(every)
        if number % 10 == 9:
            guarded.revoke_access()  # both logins are refreshed, in the runs that need them
        for who, step in order:
            await users[who].step(step, f"{who}-{number}")
        for user in users.values():
            answer = user.answer(f"{user.name}-{number}")
            known = alone(order, user.name)
            said[known] += 1
            if known:
                assert answer["content"] == {"secret": f"secret of {user.name}"}, order
            else:
                assert answer == {"action": "decline"}, order
    await app.gateway.aclose()
    for user in users.values():
        assert user.asked
        assert all(question.startswith(user.name) for question in user.asked)
    assert all(said.values())
    assert len(guarded.refreshes) >= len(USERS)
