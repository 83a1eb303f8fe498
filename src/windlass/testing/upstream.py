"""`FakeUpstream`: the base of the fake services. It has a script, a server and the requests."""

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import msgspec

from windlass.errors import ModelError
from windlass.testing.exchange import (
    PlannedResponse,
    Received,
    RequestRefused,
    ResponseWriter,
    Transport,
    json_bytes,
    json_response,
    response_to,
)
from windlass.testing.script import Fault, Refuse, Script, ScriptExhausted, Stepper, Turn

if TYPE_CHECKING:
    from windlass.testing.server import ServerThread


class FakeUpstream(ABC):
    """A service on 127.0.0.1, in its own thread, that answers from a script.

    Use it in a `with` or `async with` statement. `requests` are the received model requests,
    including refused ones.
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
        """Starts the server. Raises `OSError` if the port is in use."""
        # Imported here: aiohttp is slow to import.
        from windlass.testing.server import ServerThread

        if self._server is None:
            server = ServerThread(self._handle, self._transport.write_size, self._wanted_port)
            self._port = server.start()
            self._server = server
        return self

    def close(self) -> None:
        """Stops the server and closes all connections. `start` starts it again."""
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
            raise RuntimeError("the fake is not running: use it in a `with` statement")
        return f"http://127.0.0.1:{self._port}"

    @property
    @abstractmethod
    def base_url(self) -> str:
        """The base URL that clients use."""

    @abstractmethod
    def _accepted(self, received: Received) -> ResponseWriter | Any:
        """The writer for an accepted model request, or the JSON value for any other request.

        Raises `RequestRefused`.
        """

    @abstractmethod
    def _is_model_request(self, received: Received) -> bool: ...

    @abstractmethod
    def _error_body(self, error: Refuse | RequestRefused) -> Any:
        """The error in the format of the service."""

    def _headers(self) -> dict[str, str]:
        """Headers that the service adds to every response."""
        return {}

    def _handle(self, received: Received) -> PlannedResponse:
        response = self._respond(received)
        return msgspec.structs.replace(response, headers={**self._headers(), **response.headers})

    def _respond(self, received: Received) -> PlannedResponse:
        is_model_request = self._is_model_request(received)
        if is_model_request:
            self.requests.append(received)
        try:
            accepted = self._accepted(received)
            if not is_model_request:
                return json_response(json_bytes(accepted))
            step = self._step(received)
            return response_to(step, accepted, self._transport, self._error_response)
        except RequestRefused as refused:
            return self._error_response(refused)
        except ValueError as error:
            return self._error_response(RequestRefused(400, str(error), code="script_failed"))

    def _step(self, received: Received) -> Turn | Fault:
        try:
            step = self._stepper.next(received.body)
        except ScriptExhausted as error:
            raise RequestRefused(400, str(error), code="script_exhausted") from None
        except Exception as error:
            # The script is user code: report its error to the client.
            raise RequestRefused(
                400, f"the script failed: {error!r}", code="script_failed"
            ) from error
        match step:
            case ModelError(status=int(status), message=message, code=code):
                return Refuse(status, message, step.retry_after, code)
            case Exception():
                return Refuse(500, str(step))
            case _:
                return step

    def _error_response(self, error: Refuse | RequestRefused) -> PlannedResponse:
        seconds = error.retry_after if isinstance(error, Refuse) else None
        retry = {} if seconds is None else {"Retry-After": f"{seconds:g}"}
        return json_response(json_bytes(self._error_body(error)), error.status, retry)
