"""FakeUpstream."""

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import msgspec

from windlass.errors import ModelError
from windlass.testing.exchange import (
    Answer,
    Exchange,
    Received,
    Refused,
    Transport,
    answer_to,
    json_answer,
    json_bytes,
)
from windlass.testing.script import Fault, Refuse, Script, ScriptExhausted, Stepper, Turn

if TYPE_CHECKING:
    from windlass.testing.server import ServerThread


class FakeUpstream(ABC):
    """A service on 127.0.0.1, in a thread of its own, that answers from a script.

    Use it as `with` or `async with`. `requests` are the model requests that came, refused ones too.
    """

    def __init__(
        self, script: Script[dict[str, Any]], api_key: str | None, port: int, transport: Transport
    ) -> None:
        self.api_key = api_key
        self.requests: list[Received] = []
        self._stepper = Stepper(script)
        self._transport = transport
        self._wanted_port = port
        self._server: ServerThread | None = None
        self._port = 0

    def start(self) -> Self:
        """Listens. Raises `OSError` if the port is taken."""
        # aiohttp costs its import only to those who start a server.
        from windlass.testing.server import ServerThread

        if self._server is None:
            server = ServerThread(self._answered, self._transport.write_size, self._wanted_port)
            self._port = server.start()
            self._server = server
        return self

    def close(self) -> None:
        """Drops every connection. A closed fake may be started again."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    @property
    def root_url(self) -> str:
        """`http://127.0.0.1:port`. Raises `RuntimeError` before the fake is started."""
        if self._server is None:
            raise RuntimeError("the fake is not started: use it in a `with` statement")
        return f"http://127.0.0.1:{self._port}"

    @property
    @abstractmethod
    def base_url(self) -> str:
        """What clients take for the service's address."""

    @abstractmethod
    def _accepted(self, received: Received) -> Exchange | Any:
        """The exchange of a model request that the service accepts; of others, the JSON answer.

        Raises `Refused`.
        """

    @abstractmethod
    def _is_model_request(self, received: Received) -> bool: ...

    @abstractmethod
    def _error_body(self, error: Refuse | Refused) -> Any:
        """The error in the service's shape."""

    def _headers(self) -> dict[str, str]:
        """What the service adds to every answer."""
        return {}

    def _answered(self, received: Received) -> Answer:
        answer = self._answer(received)
        return msgspec.structs.replace(answer, headers={**self._headers(), **answer.headers})

    def _answer(self, received: Received) -> Answer:
        is_model_request = self._is_model_request(received)
        if is_model_request:
            self.requests.append(received)
        try:
            accepted = self._accepted(received)
            if not is_model_request:
                return json_answer(json_bytes(accepted))
            step = self._step(received)
            return answer_to(step, accepted, self._transport, self._error_answer)
        except Refused as refused:
            return self._error_answer(refused)
        except ValueError as error:
            return self._error_answer(Refused(400, str(error), code="script_failed"))

    def _step(self, received: Received) -> Turn | Fault:
        try:
            step = self._stepper.next(received.body)
        except ScriptExhausted as error:
            raise Refused(400, str(error), code="script_exhausted") from None
        except Exception as error:
            # The script is the user's own code: what it raises is what the client gets to read.
            raise Refused(400, f"the script failed: {error!r}", code="script_failed") from error
        match step:
            case ModelError(status=int(status), message=message, code=code):
                return Refuse(status, message, step.retry_after, code)
            case Exception():
                return Refuse(500, str(step))
            case _:
                return step

    def _error_answer(self, error: Refuse | Refused) -> Answer:
        seconds = error.retry_after if isinstance(error, Refuse) else None
        retry = {} if seconds is None else {"Retry-After": f"{seconds:g}"}
        return json_answer(json_bytes(self._error_body(error)), error.status, retry)
