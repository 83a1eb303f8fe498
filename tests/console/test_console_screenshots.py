"""The pictures in docs/console.md: they can be made at any time, with a real model.

`make screenshots` makes them again with the embedded model, which takes minutes.
"""

import asyncio
import os
import re
from pathlib import Path

import pytest
from tests.console.conftest import StageOf
from tests.console.pictures import EXAMPLES, NAMES, SCRIPT, TOOLS, photographed, show_tools
from tests.console.stage import DESK, IN_ONE_BROWSER, PHONE

from windlass.models import create_model

DOCS = Path(__file__).parent.parent.parent / "docs"
IMAGES = DOCS / "images"
MOST_BYTES = 200_000
PATIENCE = 900.0
"""Seconds for the embedded model to answer on a slow machine."""


def width_of(image: bytes) -> int:
    """The width of a PNG."""
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(image[16:20])


def are_for_the_documentation(folder: Path) -> None:
    assert sorted(folder.glob("console-*.png")) == sorted(
        folder / f"console-{name}.png" for name in NAMES
    )
    for name in NAMES:
        image = (folder / f"console-{name}.png").read_bytes()
        assert width_of(image) == (PHONE if name == "phone" else DESK)["width"]
        assert len(image) < MOST_BYTES, name
    for scheme in ("light", "dark"):
        assert len((folder / f"readme-{scheme}.png").read_bytes()) < MOST_BYTES


@pytest.mark.whole("test_console_looks.py opens the same pages")
@IN_ONE_BROWSER
async def test_the_pictures_can_be_made(stage_of: StageOf, tmp_path: Path) -> None:
    async def at_once(_: float) -> None: ...

    stage = await stage_of(SCRIPT, tools=TOOLS, shown=show_tools, examples=EXAMPLES)
    await photographed(stage, tmp_path, seconds=20, pause=at_once)
    are_for_the_documentation(tmp_path)


def test_the_documentation_shows_every_picture() -> None:
    are_for_the_documentation(IMAGES)
    shown = re.findall(
        r"!\[[^\]]+\]\(images/console-(\w+)\.png\)", (DOCS / "console.md").read_text()
    )
    assert sorted(shown) == sorted(NAMES)


if "WINDLASS_SCREENSHOTS" in os.environ:  # `make screenshots`: it writes into the documentation

    @IN_ONE_BROWSER
    async def test_the_pictures_are_of_the_embedded_model(stage_of: StageOf) -> None:
        stage = await stage_of(
            tools=TOOLS,
            shown=show_tools,
            examples=EXAMPLES,
            speaker=create_model("local/qwen"),
            name="qwen",
            target="local/qwen",
            run_timeout=PATIENCE,
            approval_timeout=PATIENCE,
        )
        IMAGES.mkdir(exist_ok=True)
        await photographed(stage, IMAGES, seconds=PATIENCE, pause=asyncio.sleep)
        are_for_the_documentation(IMAGES)
