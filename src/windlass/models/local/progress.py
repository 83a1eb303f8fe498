"""What the runtime says of a prompt before it answers: how long it is. Pure."""

import msgspec
from msgspec import Struct

__all__ = ["PromptSize"]


class PromptSize(Struct, frozen=True):
    """The prompt's tokens, and how many the model can take at all; 0 for what is not said."""

    tokens: int = 0
    context: int = 0

    @classmethod
    def told_by(cls, chunk: bytes) -> "PromptSize":
        """Read from one chunk: those before the answer say it, and a refusal for length does."""
        read = _decode(chunk)
        if read.error is not None:
            return cls(read.error.n_prompt_tokens, read.error.n_ctx)
        return cls(read.prompt_progress.total) if read.prompt_progress else cls()


class _Progress(Struct):
    total: int = 0


class _Refusal(Struct):
    n_prompt_tokens: int = 0
    n_ctx: int = 0


class _Chunk(Struct):
    prompt_progress: _Progress | None = None
    error: _Refusal | None = None


_decode = msgspec.json.Decoder(_Chunk).decode
