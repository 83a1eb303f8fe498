"""Requests to `/v1/responses` of a gateway in this process, and what their streams contain."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.asgi import Answer, post, request
from tests.support.restarting import Place
from tests.support.talking import Body

PATH = "/v1/responses"


async def posted(place: Place, given: Any, path: str = PATH, **fields: Any) -> Answer:
    return await post(place.app, {"model": "m", "input": given, **fields}, path)


async def respond(place: Place, given: Any, **fields: Any) -> Body:
    """Returns the response to an input."""
    answer = await posted(place, given, **fields)
    assert answer.status == 200, answer
    return answer.json


async def stream(place: Place, given: Any, **fields: Any) -> bytes:
    answer = await posted(place, given, stream=True, **fields)
    assert answer.status == 200, answer
    assert answer.headers["content-type"].startswith("text/event-stream")
    return answer.body


async def retrieved(place: Place, response: str) -> Body:
    answer = await place.get(f"{PATH}/{response}")
    assert answer.status == 200, answer
    return answer.json


async def replayed(place: Place, response: str, after: int | None = None) -> bytes:
    """The stored events after a sequence number, up to the end."""
    query = "" if after is None else f"&starting_after={after}"
    answer = await place.get(f"{PATH}/{response}?stream=true{query}")
    assert answer.status == 200, answer
    return answer.body


async def deleted(place: Place, response: str) -> Answer:
    return await request(place.app, "DELETE", f"{PATH}/{response}")


def blocks(sent: bytes) -> list[bytes]:
    """The events of a stream as bytes. The last one is `[DONE]`."""
    return [block for block in sent.split(b"\n\n") if block]


def events(sent: bytes) -> list[Body]:
    """The events of a stream. Each is named by its type, and they are numbered without a gap."""
    found = list(_events(sent))
    first = found[0]["sequence_number"] if found else 0
    assert [event["sequence_number"] for event in found] == list(range(first, first + len(found)))
    return found


def _events(sent: bytes) -> Iterator[Body]:
    *listed, last = blocks(sent)
    assert last == b"data: [DONE]"
    for block in listed:
        if block.startswith(b":"):
            continue
        name, data = block.decode().split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        yield event


def last_response(sent: bytes) -> Body:
    return events(sent)[-1]["response"]


def types(sent: bytes) -> list[str]:
    return [event["type"] for event in events(sent)]


def kinds(response: Body) -> list[str]:
    return [item["type"] for item in response["output"]]


def text_of(response: Body) -> str:
    """Returns the text of all messages."""
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part["text"] for item in messages for part in item["content"])


def item_of(response: Body, kind: str) -> Body:
    """Returns the only item of this type."""
    [found] = [item for item in response["output"] if item["type"] == kind]
    return found


def is_stored(file: Path, words: str) -> bool:
    """Whether the text is anywhere in the file of runs, or in its journal."""
    found = b"".join(
        each.read_bytes() for each in file.parent.iterdir() if each.name.startswith(file.name)
    )
    return words.encode() in found


def run_count(file: Path) -> int:
    """Returns the number of stored runs. The file is created with the first run."""
    if not file.exists():
        return 0
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT count(*) FROM runs").fetchone()[0]
