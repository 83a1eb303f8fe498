"""Reads many messages of a stream at once, from any server. Needs NATS 2.11 or later."""

from typing import NamedTuple

from nats.errors import NoRespondersError

from windlass.jsontext import encode_json
from windlass.messaging.connection import Connection, Msg, NatsError

PAGE_MESSAGES = 256
MAX_PAGE_BYTES = 16 * 2**20
DONE, NOT_FOUND, NO_RESPONDERS = "204", "404", "503"


class StoredMessage(NamedTuple):
    """A message of a stream, with its number."""

    number: int
    subject: str
    data: bytes


async def page(
    connection: Connection,
    stream: str,
    subject: str,
    begin: int,
    seconds: float,
    max_bytes: int = MAX_PAGE_BYTES,
) -> tuple[list[StoredMessage], int | None]:
    """Returns messages from number `begin` on, and the next number; None if these were all.

    The server that answers may be slightly behind the stream's leader. Raises `NatsError`, and
    `TimeoutError` if there is no answer within `seconds`.
    """
    request = {
        "seq": begin,
        "next_by_subj": subject,
        "batch": PAGE_MESSAGES,
        "max_bytes": max_bytes,
    }
    *messages, end = await connection.answers(
        f"$JS.API.DIRECT.GET.{stream}", encode_json(request), seconds
    )
    status = _header(end, "Status")
    if status == NO_RESPONDERS:
        raise NoRespondersError
    if status not in (DONE, NOT_FOUND):
        raise NatsError(f"{status} {_header(end, 'Description')}")
    left = int(_header(end, "Nats-Num-Pending") or 0)
    next_number = int(_header(end, "Nats-Last-Sequence")) + 1 if left else None
    found = [_stored(message) for message in messages if not _header(message, "KV-Operation")]
    return found, next_number


def _stored(message: Msg) -> StoredMessage:
    number = int(_header(message, "Nats-Sequence"))
    return StoredMessage(number, _header(message, "Nats-Subject"), message.data)


def _header(message: Msg, name: str) -> str:
    return (message.headers or {}).get(name, "")
