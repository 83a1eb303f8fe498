"""Calls over MCP: which are approved, and which are not."""

from typing import Any

from windlass import Part, ToolContext, tool
from windlass.cli.mcp_server import LocalTools
from windlass.content import FunctionResponse
from windlass.toolsets.mcp.serving.calls import UserDecision


class ApprovedCall:
    """A call whose user says yes to the call itself, and cannot be asked anything else."""

    arguments, is_modern = "{}", False

    async def ask(self, question: Any) -> UserDecision:
        return UserDecision(approved=question.name == "ask")


async def test_an_approval_over_mcp_covers_only_the_call() -> None:
    asked: list[bool] = []

    @tool(approve=True)
    async def ask(context: ToolContext) -> str:
        """Asks for a second approval."""
        decision = await context.ask(Part.from_function_call("ask:changed", {}))
        asked.append(decision.approved)
        return "asked"

    call: Any = ApprovedCall()
    answer = await LocalTools(lambda: [ask]).run(ask, call)
    assert isinstance(answer, FunctionResponse)
    assert answer.output == "asked"
    assert asked == [False]
