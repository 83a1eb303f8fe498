"""`@tool`: a function becomes a `Tool`, a declaration with a validator and something to run.

Importing this package and decorating functions is cheap; pydantic is imported when the first schema
is asked for.
"""

from windlass.tool.collection import as_tools, checked
from windlass.tool.decorator import tool
from windlass.tool.definition import OnInterrupt, Tool, ToolOptions
from windlass.tool.injection import Depends, ToolContext
from windlass.tool.parameters import InvalidSchema

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
