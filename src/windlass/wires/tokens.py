"""Estimates the tokens of a request, for models that cannot count them. Pure.

The estimate is by characters, because tokenizers differ and are large. It is a little high rather
than low: a client that trusts a low count shortens its conversation too late.

- Letters, digits and spaces of ASCII: 3.5 characters are a token. Other ASCII characters (code,
  JSON): 2 are a token. Other alphabets: 1.5. Chinese, Japanese, Korean and emoji: one each.
- An image is as large as the largest that models read (1,600 tokens), a PDF 2,000 tokens a page.
- Each message, call, result and tool has a small overhead.
"""

import re
from collections.abc import Iterable, Sequence
from math import ceil

from windlass.content import (
    AnyPart,
    Declaration,
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    InlineData,
    Message,
    Opaque,
    Text,
    Thought,
)
from windlass.jsontext import compact_json

IMAGE_TOKENS = 1600
PAGE_TOKENS = 2000
BYTES_PER_TOKEN = 16
"""For media of other kinds."""
MESSAGE_TOKENS = 4
CALL_TOKENS = 12
TOOL_TOKENS = 16
TOOL_PROMPT_TOKENS = 300
"""The instructions about tools that providers add to a prompt."""
_PLAIN = re.compile(r"[A-Za-z0-9 ]+")
_WIDE = re.compile("[\u1100-\u11ff\u2e80-\ud7ff\uf900-\ufaff\ufe30-\uff60\U0001f000-\U0003ffff]")
_PDF_PAGE = re.compile(rb"/Type\s*/Page\b")
_PLAIN_CHARACTERS, _OTHER_ASCII_CHARACTERS, _OTHER_CHARACTERS = 3.5, 2.0, 1.5


def estimated_tokens(messages: Iterable[Message], tools: Sequence[Declaration] = ()) -> int:
    """The approximate number of input tokens of a request."""
    total = sum(MESSAGE_TOKENS + sum(map(_part_tokens, message.parts)) for message in messages)
    functions = [tool for tool in tools if isinstance(tool, FunctionDeclaration)]
    if functions:
        total += TOOL_PROMPT_TOKENS + sum(map(_tool_tokens, functions))
    return total


def text_tokens(text: str) -> int:
    """The approximate number of tokens of a text."""
    if not text:
        return 0
    plain = sum(len(found) for found in _PLAIN.findall(text))
    if text.isascii():
        return ceil(plain / _PLAIN_CHARACTERS + (len(text) - plain) / _OTHER_ASCII_CHARACTERS)
    wide = len(_WIDE.findall(text))
    ascii_count = len(text.encode("ascii", "ignore"))
    others = len(text) - ascii_count - wide
    return ceil(
        plain / _PLAIN_CHARACTERS
        + (ascii_count - plain) / _OTHER_ASCII_CHARACTERS
        + others / _OTHER_CHARACTERS
        + wide
    )


def _tool_tokens(tool: FunctionDeclaration) -> int:
    described = text_tokens(tool.name) + text_tokens(tool.description)
    return TOOL_TOKENS + described + text_tokens(compact_json(tool.parameters))


def _part_tokens(part: AnyPart) -> int:
    match part:
        case Text(text=text) | Thought(text=text):
            return text_tokens(text)
        case FunctionCall(name=name, json=json):
            return CALL_TOKENS + text_tokens(name) + text_tokens(json)
        case FunctionResponse():
            return CALL_TOKENS + text_tokens(part.text) + sum(map(_part_tokens, part.parts))
        case InlineData() | FileData():
            return _media_tokens(part)
        case Opaque(data=data):
            return text_tokens(compact_json(data))


def _media_tokens(part: InlineData | FileData) -> int:
    kind = part.mime_type or "image/*"
    if kind.startswith("image/"):
        return IMAGE_TOKENS
    if isinstance(part, FileData):
        return PAGE_TOKENS
    if kind == "application/pdf":
        return PAGE_TOKENS * max(1, len(_PDF_PAGE.findall(part.data)))
    if kind.startswith("text/"):
        return text_tokens(part.data.decode("utf-8", "replace"))
    return len(part.data) // BYTES_PER_TOKEN + 1
