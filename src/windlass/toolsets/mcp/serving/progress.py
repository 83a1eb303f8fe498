"""What a tool reports, sent to the client in order, and before the tool's answer."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, TypeAlias, cast

__all__ = ["ProgressRelay"]

Report: TypeAlias = tuple[float, float | None, str | None]
Send: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]


class ProgressRelay:
    """Leaving the context waits until all that was reported is sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._reports: asyncio.Queue[tuple[float, float | None, str | None] | None] = (
            asyncio.Queue()
        )
        self._sent = 0.0

    def report(self, fraction: float | None, message: str | None, data: Any) -> None:
        """Takes what `ToolContext.progress` takes. Belongs to the event loop."""
        if fraction is not None:
            self._reports.put_nowait((fraction, 1.0, message))
            return
        # MCP wants a number that grows: a report without one counts itself.
        known = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        number = known.get("progress")
        self._sent = float(number) if isinstance(number, int | float) else self._sent + 1
        self._reports.put_nowait((self._sent, None, message))

    async def __aenter__(self) -> "ProgressRelay":
        self._task = asyncio.create_task(self._relay())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reports.put_nowait(None)
        if isinstance(error, asyncio.CancelledError):
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _relay(self) -> None:
        while (report := await self._reports.get()) is not None:
            await self._send(*report)
