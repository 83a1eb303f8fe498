"""A tool that needs somebody's yes: the client is asked, in the way of its era."""

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from windlass.jsontext import compact_json

__all__ = ["approval"]

ANSWER = "approval"
SCHEMA = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "description": "Whether it may run."}},
    "required": ["approve"],
}


async def approval(
    context: ServerRequestContext, params: types.CallToolRequestParams
) -> bool | types.InputRequiredResult:
    """Whether somebody has said yes; or the question, for a client that then calls again."""
    shown = compact_json(params.arguments or {})
    message = f"Run {params.name} with {shown[:2000]}?"
    question = types.ElicitRequestFormParams(message=message, requested_schema=SCHEMA)
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        given = (params.input_responses or {}).get(ANSWER)
        if given is None and _can_ask(context):
            request = types.ElicitRequest(params=question)
            return types.InputRequiredResult(input_requests={ANSWER: request})
        return isinstance(given, types.ElicitResult) and _is_yes(given)
    if not _can_ask(context):
        return False
    return _is_yes(await context.session.elicit_form(message, SCHEMA, context.request_id))


def _can_ask(context: ServerRequestContext) -> bool:
    capabilities = context.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _is_yes(result: types.ElicitResult) -> bool:
    return result.action == "accept" and (result.content or {}).get("approve") is True
