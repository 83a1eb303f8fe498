"""The Claude Agent SDK with a tool in its own process: prints what it has read as JSON."""

import asyncio
import json
import sys
from typing import Any

from claude_agent_sdk import (  # pyright: ignore[reportMissingImports]
    AssistantMessage,
    ClaudeAgentOptions,
    ResultMessage,
    TextBlock,
    create_sdk_mcp_server,
    query,
    tool,
)

RANG: list[int] = []


@tool("ring", "Rings a bell.", {"times": int})
async def ring(arguments: dict[str, Any]) -> dict[str, Any]:
    RANG.append(arguments["times"])
    return {"content": [{"type": "text", "text": f"rang {arguments['times']}"}]}


async def main(prompt: str, folder: str) -> None:
    options = ClaudeAgentOptions(
        mcp_servers={"bell": create_sdk_mcp_server("bell", tools=[ring])},
        allowed_tools=["mcp__bell__ring"],
        cwd=folder,
        model="claude-opus-5-5",
    )
    seen: dict[str, Any] = {"texts": [], "rang": RANG}
    async for message in query(prompt=prompt, options=options):
        if isinstance(message, AssistantMessage):
            seen["texts"] += [each.text for each in message.content if isinstance(each, TextBlock)]
        elif isinstance(message, ResultMessage):
            seen |= {"result": message.result, "failed": message.is_error}
    print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
