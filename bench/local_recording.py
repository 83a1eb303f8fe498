"""`RecordedModel`: an embedded model whose answers are stored, so that each is generated once."""

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any

from windlass.content import Usage
from windlass.events import ModelEvent, TextDelta, TurnEnded
from windlass.model import ModelRequest
from windlass.models.local.model import LocalModel

__all__ = ["RecordedModel"]


class RecordedModel(LocalModel):
    """Answers a request that the file contains from the file, and adds others to it.

    A change of what is done with the answers is measured again without the model. Answers in
    words are not generated: a request without a grammar and without logprobs gets no text.
    """

    def __init__(self, model: str, file: Path) -> None:
        super().__init__(model)
        self._file = file
        self._known: dict[str, list[Any]] = {}
        if file.exists():
            rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
            self._known = {row["key"]: row["text"] for row in rows}

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return aclosing(self._recorded(request))

    def key(self, request: ModelRequest) -> str:
        """What the answer is stored by: all that the runtime gets."""
        return hashlib.sha256(self._body(request, request.messages)).hexdigest()

    async def _recorded(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if not request.settings.logprobs:
            yield TurnEnded("stop", Usage())
            return
        key = self.key(request)
        if key not in self._known:
            said: list[Any] = []
            async with super().stream(request) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        said.append((event.text, event.logprobs))
            self._known[key] = said
            row = {"key": key, "text": said, "asked": request.messages[-1].text[-300:]}
            with self._file.open("a", encoding="utf-8") as file:
                print(json.dumps(row), file=file)
        for text, logprobs in self._known[key]:
            yield TextDelta(text, logprobs=logprobs)
        yield TurnEnded("stop", Usage())
