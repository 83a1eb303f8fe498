"""How large a request is, about, before it is encoded. Pure."""

from windlass.content import FunctionDeclaration, size_of_part
from windlass.jsontext.large import is_larger
from windlass.jsontext.offload import LARGE
from windlass.model import ModelRequest

__all__ = ["request_size"]

_PART = 64
"""What a part takes beside its text."""
_FORMATTING = 8
"""How much longer it takes to convert a schema than to encode it."""


def request_size(request: ModelRequest) -> int:
    """Characters, about; more than `LARGE` says only that it is large."""
    size = 0
    for message in request.messages:
        for part in message.parts:
            size += _PART + size_of_part(part)
        if size > LARGE:
            return size
    schemas = [tool.parameters for tool in request.tools if isinstance(tool, FunctionDeclaration)]
    if is_larger((schemas, request.extra), LARGE // _FORMATTING):
        return LARGE + 1
    return size
