"""Many messages of a stream at once, from whichever server has them. NATS 2.11 and later."""

from typing import NamedTuple

from nats.errors import NoRespondersError

from windlass.jsontext import encode_json
from windlass.messaging.connection import Connection, Msg, NatsError

__all__ = ["PAGE_BYTES", "Kept", "page"]

PAGE = 256
PAGE_BYTES = 16 * 2**20
DONE, NOTHING, NOBODY = "204", "404", "503"


class Kept(NamedTuple):
    """A message in a stream, by its number there."""

    number: int
    subject: str
    data: bytes


async def page(
    connection: Connection,
    stream: str,
    subject: str,
    begin: int,
    seconds: float,
    max_bytes: int = PAGE_BYTES,
) -> tuple[list[Kept], int | None]:
    """The next messages from number `begin` on, and where to go on; None if these were all.

    The server that answers may be a moment behind the stream's leader. Raises `NatsError`, and
    `TimeoutError` if there is no answer in so many `seconds`.
    """
    wanted = {"seq": begin, "next_by_subj": subject, "batch": PAGE, "max_bytes": max_bytes}
    *messages, end = await connection.answers(
        f"$JS.API.DIRECT.GET.{stream}", encode_json(wanted), seconds
    )
    said = _header(end, "Status")
    if said == NOBODY:
        raise NoRespondersError
    if said not in (DONE, NOTHING):
        raise NatsError(f"{said} {_header(end, 'Description')}")
    left = int(_header(end, "Nats-Num-Pending") or 0)
    on = int(_header(end, "Nats-Last-Sequence")) + 1 if left else None
    return [_kept(message) for message in messages if not _header(message, "KV-Operation")], on


def _kept(message: Msg) -> Kept:
    number = int(_header(message, "Nats-Sequence"))
    return Kept(number, _header(message, "Nats-Subject"), message.data)


def _header(message: Msg, name: str) -> str:
    return (message.headers or {}).get(name, "")
