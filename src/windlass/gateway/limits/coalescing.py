"""Those who ask for the same thing at once, served together: with one round trip for all."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["Desk"]

T = TypeVar("T")


class Desk(Generic[T]):
    """`serve` answers so many at once; `unwanted` takes the answer of one who has gone away."""

    def __init__(
        self, serve: Callable[[int], Awaitable[Sequence[T]]], unwanted: Callable[[T], None]
    ) -> None:
        self._serve, self._unwanted = serve, unwanted
        self._waiting: list[asyncio.Future[T]] = []
        self._serving: asyncio.Task[None] | None = None

    async def ask(self) -> T:
        """The answer for one. Raises what `serve` raises."""
        wish: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(wish)
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve_all())
        try:
            return await wish
        except asyncio.CancelledError:
            # The answer may have come in the same moment.
            if wish.done() and not wish.cancelled() and wish.exception() is None:
                self._unwanted(wish.result())
            raise

    async def _serve_all(self) -> None:
        while self._waiting:
            wishes, self._waiting = self._waiting, []
            try:
                answers = await self._serve(len(wishes))
            except Exception as error:  # noqa: BLE001 - told to those who asked
                for wish in wishes:
                    if not wish.done():
                        wish.set_exception(error)
                continue
            for wish, answer in zip(wishes, answers, strict=True):
                if wish.done():
                    self._unwanted(answer)
                else:
                    wish.set_result(answer)
        self._serving = None
