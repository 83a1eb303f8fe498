"""The page as it was when something failed, for whoever has to find out why."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Page

__all__ = ["save_snapshot"]

log = logging.getLogger("windlass.models.aistudio")


async def save_snapshot(page: Page, folder: Path | None) -> None:
    """Writes the page's HTML and a picture of it. It holds the conversation, so that the files are
    for their owner alone. Does nothing without a folder, and never fails."""
    from playwright.async_api import Error

    if folder is None or page.is_closed():
        return
    stem = f"aistudio-{time.strftime('%Y%m%d-%H%M%S')}-{time.monotonic_ns() % 1_000_000:06}"
    try:
        shown = {".html": (await page.content()).encode(), ".png": await page.screenshot()}
        await asyncio.to_thread(_write, folder, stem, shown)
    except (Error, OSError) as problem:
        log.warning("A snapshot of the page could not be saved: %s", problem)
    else:
        log.info("The page was saved to %s", folder / f"{stem}.html")


def _write(folder: Path, stem: str, shown: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for ending, data in shown.items():
        path = folder / f"{stem}{ending}"
        path.touch(mode=0o600)
        path.write_bytes(data)
