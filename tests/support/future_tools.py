"""Functions whose type hints are strings."""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from windlass import Depends, ToolContext, tool

if TYPE_CHECKING:
    from elsewhere import Nowhere  # pyright: ignore[reportMissingImports]


class Color(enum.Enum):
    RED = "r"


@dataclass
class Point:
    x: int
    near: list[Point] | None = None


def number() -> int:
    return 1


async def wait(seconds: float) -> None:
    await asyncio.sleep(seconds)


def paint(color: Color, points: list[Point], extra: Annotated[int, Depends(number)] = 1) -> Any:
    return color.name, points[0].x


def unresolved(a: Nowhere): ...


def odd_return(a: int) -> Nowhere:
    return a


def local_tool() -> Any:
    @dataclass
    class Item:
        n: int

    @tool
    def local(item: Item, context: ToolContext | None = None) -> int:
        return item.n

    return local


class Painter:
    class Brush(enum.Enum):
        RED = "r"

    @tool
    def paint(self, color: Brush) -> str:
        return color.name
