"""HTTP as uvicorn reads it, with an end to the headers."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from windlass.gateway.problems import Problem, headers_too_large

__all__ = ["BoundedProtocol"]


class BoundedProtocol(HttpToolsProtocol):
    """Hangs up on a client whose headers do not end: the parser alone would keep them all.

    The limit is uvicorn's `h11_max_incomplete_event_size`, which its other parser keeps to.
    """

    _heading = False
    """Whether the headers of a request have begun, and not ended yet."""
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        went_on = self._heading
        super().data_received(data)
        if not (went_on and self._heading):
            return
        self._head_bytes += len(data)
        limit = self.config.h11_max_incomplete_event_size or 0
        if self._head_bytes > limit:
            self._hang_up(headers_too_large(limit))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._heading, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._heading = False
        super().on_headers_complete()

    def _hang_up(self, problem: Problem) -> None:
        body = problem.to_json()
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body)
        )
        self.transport.close()
