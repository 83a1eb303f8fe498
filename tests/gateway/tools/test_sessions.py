"""Which worker sessions a key may use."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.asgi import Answer, bearer, post, request
from tests.support.restarting import SERVED, Place, content, places_on
from tests.support.talking import asking

from windlass import Tool, tool
from windlass.events import ApprovalRequested
from windlass.gateway.config import KeyConfig, examine_config
from windlass.gateway.config.keys import new_key
from windlass.testing import call

KEY, HASH = new_key()
ASK = asking("Go.")


def found(city: str) -> str:
    """Finds a city."""
    return city


class FakeWorkers:
    """Every session has one tool, named after it."""

    async def tools(self, sessions: list[str]) -> tuple[Tool, ...]:
        return tuple(tool(name=f"of_{each}")(found) for each in sessions)

    async def wait_for_tools(self, sessions: list[str], names: Any) -> tuple[Tool, ...]:
        return await self.tools(sessions)

    async def aclose(self) -> None:
        pass


async def approval_asked(place: Place, run_id: str) -> ApprovalRequested:
    follower = (await place.gateway.find(run_id, "web")).follow(0)
    assert follower is not None
    async for event in follower:
        if isinstance(event, ApprovalRequested):
            return event
    raise AssertionError("no approval was asked for")


def place_with(*keys: KeyConfig) -> Place:
    place = Place(None, lambda _: "Fine.", config=replace(SERVED, keys=keys))
    workers: Any = FakeWorkers()
    place.gateway.sessions.workers = workers
    return place


async def answers(place: Place, session: str, key: str | None = KEY) -> dict[str, Answer]:
    """The answer of every route that takes a session."""
    headers = [(b"x-windlass-session", session.encode()), *([bearer(key)] if key else [])]
    tool_path = f"/v1/tools/of_{session}"
    call_path = f"{tool_path}/call"
    arguments = {"arguments": {"city": "Rome"}}
    return {
        "chat": await post(place.app, ASK, headers=headers),
        "stream": await post(place.app, {**ASK, "stream": True}, headers=headers),
        "run": await post(place.app, ASK, "/v1/runs", headers=headers),
        "tools": await request(place.app, "GET", "/v1/tools", headers=headers),
        "tool": await request(place.app, "GET", tool_path, headers=headers),
        "call": await post(place.app, arguments, call_path, headers=headers),
    }


@pytest.mark.parametrize(
    ("sessions", "session", "allowed"),
    [
        ((), "user_1", False),
        (("user_*", "shared"), "user_1", True),
        (("user_*", "shared"), "shared", True),
        (("user_*", "shared"), "shared2", False),
        (("user_?",), "user_12", False),
        (("User_*",), "user_1", False),
        (("*",), "anything", True),
    ],
)
async def test_a_key_uses_the_sessions_that_its_names_and_patterns_allow(
    sessions: tuple[str, ...], session: str, allowed: bool
) -> None:
    place = place_with(KeyConfig(name="web", hash=HASH, sessions=sessions))
    for route, answer in (await answers(place, session)).items():
        if allowed:
            assert answer.status in (200, 202), (route, answer)
            continue
        assert answer.status == 403, (route, answer)
        assert answer.json["error"]["code"] == "session_not_allowed"
        assert repr(session) in answer.json["error"]["message"]
    await place.gateway.aclose()


async def test_a_key_that_names_no_sessions_uses_none_and_still_uses_its_models() -> None:
    place = place_with(KeyConfig(name="web", hash=HASH))
    for answer in (await answers(place, "default")).values():
        assert answer.status == 403
    assert (await post(place.app, ASK, headers=[bearer(KEY)])).status == 200
    await place.gateway.aclose()


async def test_without_keys_every_session_may_be_used() -> None:
    place = place_with()
    for route, answer in (await answers(place, "anything", key=None)).items():
        assert answer.status in (200, 202), (route, answer)
    await place.gateway.aclose()


@pytest.mark.parametrize(("after", "resumed"), [(("user_*",), True), ((), False)])
async def test_a_resumed_run_uses_only_the_sessions_of_its_key(
    tmp_path: Path, after: tuple[str, ...], resumed: bool
) -> None:
    def served(*sessions: str) -> Any:
        return replace(SERVED, keys=(KeyConfig(name="web", hash=HASH, sessions=sessions),))

    workers: Any = FakeWorkers()
    async with places_on(tmp_path / "runs.db") as places:
        first = places.open([call("erase", path="a")], config=served("user_*"))
        first.gateway.sessions.workers = workers
        headers = [bearer(KEY), (b"x-windlass-session", b"user_1")]
        run_id = (await post(first.app, ASK, "/v1/runs", headers=headers)).json["id"]
        asked = await approval_asked(first, run_id)
        await first.crash()

        second = places.open(["Fine."], config=served(*after))
        second.gateway.sessions.workers = workers
        [run] = await second.resume()
        if resumed:
            decision = {"call_id": asked.call.id, "approved": True}
            path = f"/v1/runs/{run_id}"
            await post(second.app, decision, f"{path}/approve", headers=[bearer(KEY)])
            await run.task
            shown = (await request(second.app, "GET", path, headers=[bearer(KEY)])).json
            assert content(shown) == "Fine."
        else:
            await run.task
            assert "'user_1'" in str(run.error)


@pytest.mark.parametrize("pattern", ["user.*", "a b", "a/b"])
def test_a_pattern_that_no_session_can_match_is_a_config_error(
    tmp_path: Path, pattern: str
) -> None:
    file = tmp_path / "windlass.toml"
    file.write_text(f'[[keys]]\nname = "web"\nhash = "{HASH}"\nsessions = ["ok_*", "{pattern}"]\n')
    _, problems = examine_config(file, {})
    assert "keys[0].sessions[1]" in [problem.place for problem in problems]
