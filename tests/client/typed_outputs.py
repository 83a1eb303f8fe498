"""Type checkers infer the type of an output from `output=`: `make check` verifies these lines."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, assert_type

import msgspec
from pydantic import BaseModel
from typing_extensions import TypedDict

from windlass import AsyncClient, AsyncRun, AsyncStream, Client, Reply, Run, Stream


class Invoice(BaseModel):
    total: float


@dataclass
class Point:
    x: int


class Weather(TypedDict):
    city: str


class Task(msgspec.Struct):
    title: str


class Colour(Enum):
    RED = "red"


def sync(client: Client) -> None:
    assert_type(client.generate("?"), Reply[None])
    assert_type(client.generate("?", output=Invoice), Reply[Invoice])
    assert_type(client.generate("?", output=Invoice).output, Invoice)
    assert_type(client.generate("?", output=Point).output, Point)
    assert_type(client.generate("?", output=Weather).output, Weather)
    assert_type(client.generate("?", output=Task).output, Task)
    assert_type(client.generate("?", output=Colour).output, Colour)
    assert_type(client.generate("?", output=list[Point]).output, list[Point])
    assert_type(client.generate("?", output=Point | Task).output, Point | Task)
    assert_type(client.generate("?", output=Literal["a", "b"]).output, Literal["a", "b"])
    assert_type(client.generate("?", output=int, max_rounds=2).output, int)
    assert_type(client.generate("?", output={"type": "object"}).output, Any)
    assert_type(client.start("?", output=Invoice), Run[Invoice])
    assert_type(client.start("?", output=Invoice).result().output, Invoice)
    assert_type(client.chat().send("?", output=Invoice), Reply[Invoice])
    assert_type(client.chat().send("?"), Reply[None])
    with client.stream("?", output=Invoice) as stream:
        assert_type(stream, Stream[Invoice])
        for value in stream.partial_outputs():
            assert_type(value, Invoice)
        assert_type(stream.reply.output, Invoice)
    with client.chat().stream("?", output=list[int]) as stream:
        assert_type(stream.reply.output, list[int])


async def asynchronous(client: AsyncClient) -> None:
    assert_type(await client.generate("?"), Reply[None])
    assert_type(await client.generate("?", output=Invoice), Reply[Invoice])
    assert_type(await client.start("?", output=Invoice), AsyncRun[Invoice])
    assert_type((await (await client.start("?", output=Invoice)).result()).output, Invoice)
    assert_type(await client.chat().send("?", output=Point | Task), Reply[Point | Task])
    async with client.stream("?", output=Invoice) as stream:
        assert_type(stream, AsyncStream[Invoice])
        async for value in stream.partial_outputs():
            assert_type(value, Invoice)
        assert_type(stream.reply.output, Invoice)
