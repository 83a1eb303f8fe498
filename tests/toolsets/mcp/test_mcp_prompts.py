"""Prompts from files, as an MCP client sees them: in both eras, and at a gateway with a key."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from tests.support.serving import Serving

from windlass import ToolRegistry
from windlass.cli.mcp_server import LocalTools
from windlass.errors import ConfigError
from windlass.gateway.config import load_config
from windlass.gateway.config.keys import key_hash
from windlass.testing import ScriptedModel
from windlass.toolsets.mcp.serving.prompts import PromptFolder
from windlass.toolsets.mcp.serving.server import ToolServer

ERAS = {"2025-11-25": "legacy", "2026-07-28": "auto"}
REVIEW = """+++
title = "Review"
description = "Reviews a file."
[arguments.path]
description = "The file to review."
[arguments.style]
required = false
values = ["short", "long", "Lively"]
+++
Review {{path}}.
![a pixel](pixel.png)
Style: {{ style }}
"""


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "prompts"
    place.mkdir()
    (place / "review.md").write_text(REVIEW)
    (place / "greet.md").write_text("Greet {{name}} in {{language}}.")
    (place / "pixel.png").write_bytes(b"PNG")
    (place / "notes.txt").write_text("not a prompt")
    return place


@asynccontextmanager
async def connected(folder: Path, era: str, *tools: Any) -> AsyncIterator[Client]:
    registry = ToolRegistry(tools)
    server = ToolServer(LocalTools(registry.list), version="1", prompts=PromptFolder(folder))
    async with Client(server, mode=ERAS[era], cache=None) as client:
        yield client


def contents(result: types.GetPromptResult) -> list[Any]:
    assert all(message.role == "user" for message in result.messages)
    return [message.content for message in result.messages]


def text_of(content: Any) -> str:
    assert isinstance(content, types.TextContent)
    return content.text


async def test_each_markdown_file_is_a_prompt_with_its_arguments(folder: Path, era: str) -> None:
    async with connected(folder, era) as client:
        prompts = {each.name: each for each in (await client.list_prompts()).prompts}
    assert prompts.keys() == {"greet", "review"}
    assert (prompts["review"].title, prompts["review"].description) == ("Review", "Reviews a file.")
    listed = {
        name: [(each.name, each.required) for each in prompt.arguments or ()]
        for name, prompt in prompts.items()
    }
    assert listed["greet"] == [("name", True), ("language", True)]
    assert listed["review"] == [("path", True), ("style", False)]


async def test_a_prompt_is_filled_and_its_images_are_sent(folder: Path, era: str) -> None:
    async with connected(folder, era) as client:
        result = await client.get_prompt("review", {"path": "a.py", "style": "{{path}}"})
        short = await client.get_prompt("review", {"path": "a.py"})
    first, image, last = contents(result)
    assert (text_of(first), text_of(last)) == ("Review a.py.", "Style: {{path}}")
    assert (image.type, image.mime_type, image.data) == ("image", "image/png", "UE5H")
    assert result.description == "Reviews a file."
    assert text_of(contents(short)[-1]) == "Style:"


async def test_a_stored_result_is_part_of_a_prompt(folder: Path, era: str) -> None:
    (folder / "explain.md").write_text("Explain:\n<{{uri}}>\n")

    def greet(name: str) -> str:
        """Greets."""
        return f"hello {name}"

    async with connected(folder, era, greet) as client:
        await client.call_tool("greet", {"name": "Ada"})
        (resource,) = (await client.list_resources()).resources
        result = await client.get_prompt("explain", {"uri": str(resource.uri)})
        with pytest.raises(MCPError):
            await client.get_prompt("explain", {"uri": "windlass://runs/x/results/y"})
    text, embedded = contents(result)
    assert text_of(text) == "Explain:"
    assert embedded.type == "resource"
    assert "hello Ada" in embedded.resource.text


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("greet", {"name": "Ada"}, "missing arguments: language"),
        ("other", {}, "Unknown prompt: other"),
    ],
)
async def test_a_prompt_that_cannot_be_made_is_an_error(
    folder: Path, era: str, name: str, arguments: dict[str, str], reason: str
) -> None:
    async with connected(folder, era) as client:
        with pytest.raises(MCPError, match=reason):
            await client.get_prompt(name, arguments)


async def test_the_values_of_an_argument_are_completed(folder: Path, era: str) -> None:
    async with connected(folder, era) as client:
        for start, values in (("", ["short", "long", "Lively"]), ("l", ["long", "Lively"])):
            found = await client.complete(
                types.PromptReference(type="ref/prompt", name="review"),
                {"name": "style", "value": start},
            )
            assert found.completion.values == values


async def test_changed_files_are_read_again(folder: Path, era: str) -> None:
    async with connected(folder, era) as client:
        await client.list_prompts()
        greet = folder / "greet.md"
        greet.write_text("Welcome {{name}}.")
        os.utime(greet, ns=(1, 1))
        assert text_of(*contents(await client.get_prompt("greet", {"name": "Ada"}))) == (
            "Welcome Ada."
        )
        greet.write_text("+++\nnot TOML")
        os.utime(greet, ns=(2, 2))
        kept = await client.get_prompt("greet", {"name": "Ada"})
        assert text_of(*contents(kept)) == "Welcome Ada."
        greet.unlink()
        assert [each.name for each in (await client.list_prompts()).prompts] == ["review"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("+++\nx = 1\n", "its settings have no end"),
        ("+++\nx = \n+++\nHello", "its settings are not TOML"),
        ("+++\nargs = 1\n+++\nHello", "unknown field `args`"),
    ],
)
def test_a_file_that_cannot_be_read_stops_the_start(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "wrong.md").write_text(text)
    with pytest.raises(ConfigError, match=reason):
        PromptFolder(tmp_path)


@pytest.mark.parametrize("name", ["../secret.png", "gone.png"])
async def test_media_come_from_the_folder_alone(folder: Path, era: str, name: str) -> None:
    (folder.parent / "secret.png").write_bytes(b"secret")
    (folder / "media.md").write_text(f"![x]({name})")
    async with connected(folder, era) as client:
        with pytest.raises(MCPError, match="has no file"):
            await client.get_prompt("media")


async def test_a_gateway_offers_the_prompts_of_its_folder(folder: Path, era: str) -> None:
    file = folder.parent / "windlass.toml"
    file.write_text(f"""
[models.m]
target = "openai/x"

[tools]
prompts = "prompts"

[[keys]]
name = "web"
hash = "{key_hash("key-web")}"
""")
    config = load_config(file, {"OPENAI_API_KEY": "x"})
    with Serving(config, models={"m": ScriptedModel([])}, tools=None) as gateway:
        headers = {"Authorization": "Bearer key-web"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"{gateway.root_url}/mcp", http_client=http)
            async with Client(transport, mode=ERAS[era], cache=None) as client:
                names = {each.name for each in (await client.list_prompts()).prompts}
                given = {"name": "Ada", "language": "French"}
                result = await client.get_prompt("greet", given)
    assert names == {"greet", "review"}
    assert text_of(*contents(result)) == "Greet Ada in French."
