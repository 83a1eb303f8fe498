"""`@tool`: a function becomes a `Tool`, a declaration with a validator and something to run.

Importing this package and decorating functions is cheap; pydantic is imported when the first schema
is asked for.
"""

from windlass.tool.declarations import InvalidSchema
from windlass.tool.definition import OnInterrupt, Tool, ToolOptions, as_tools, checked, tool
from windlass.tool.signature import Depends, ToolContext

__all__ = [
    "Depends",
    "InvalidSchema",
    "OnInterrupt",
    "Tool",
    "ToolContext",
    "ToolOptions",
    "as_tools",
    "checked",
    "tool",
]
