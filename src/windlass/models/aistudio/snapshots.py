"""The page as it was when something failed, for whoever has to find out why."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from windlass.content import PrivateText

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Page

__all__ = ["save_snapshot"]

log = logging.getLogger("windlass.models.aistudio")


async def save_snapshot(page: Page, folder: Path | None, *, seconds: float) -> None:
    """Writes the page's HTML and a picture of it. It holds the conversation, so that the files are
    for their owner alone. Does nothing without a folder, and never fails; a page that hangs is
    given so many seconds."""
    from playwright.async_api import Error

    if folder is None or page.is_closed():
        return
    stem = f"aistudio-{time.strftime('%Y%m%d-%H%M%S')}-{time.monotonic_ns() % 1_000_000:06}"
    try:
        async with asyncio.timeout(seconds):
            shown = {".html": (await page.content()).encode(), ".png": await page.screenshot()}
        await asyncio.to_thread(_write, folder, stem, shown)
    except (Error, OSError) as problem:  # a time-out is an OSError
        said = PrivateText(str(problem) or "it hangs")
        log.warning("A snapshot of the page could not be saved: %s", said)
    else:
        log.info("The page was saved to %s", folder / f"{stem}.html")


def _write(folder: Path, stem: str, shown: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for ending, data in shown.items():
        path = folder / f"{stem}{ending}"
        path.touch(mode=0o600)
        path.write_bytes(data)
