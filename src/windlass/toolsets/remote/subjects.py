"""The NATS subjects of gateways and workers. Pure.

Each contains the session, so NATS permissions can restrict a user to one session: a user that may
publish to `windlass.v1.announce.A.>` and `windlass.v1.reply.*.A.>`, and subscribe to
`windlass.v1.worker.A.>` and `windlass.v1.inbox.A.>`, cannot see, call or answer for another
session.
"""

import re
import secrets

from windlass.errors import ConfigError

PREFIX = "windlass.v1"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_token(value: str) -> bool:
    """Whether the value is valid in a subject."""
    return _TOKEN.fullmatch(value) is not None


def check_token(value: str, what: str) -> str:
    """The value. Raises `ConfigError` if it is not valid in a subject."""
    if not is_token(value):
        raise ConfigError(
            f"{what} must be 1 to 64 letters, digits, `-` and `_`, not {value[:80]!r}"
        )
    return value


def new_id(kind: str) -> str:
    return f"{kind}-{secrets.token_hex(8)}"


def announce(session: str, worker: str) -> str:
    return f"{PREFIX}.announce.{session}.{worker}"


def any_announcement(session: str = "*") -> str:
    return announce(session, "*")


def worker_in(subject: str) -> tuple[str, str]:
    """The session and the worker in the subject of an announcement."""
    session, worker = subject.split(".")[3:5]
    return session, worker


def hello(session: str = "*") -> str:
    """The subject of requests to announce: to the workers of one session, or to all."""
    return f"{PREFIX}.hello.{'all' if session == '*' else session}"


def to_worker(session: str, worker: str, verb: str) -> str:
    """`verb` is `call`, `cancel` or `ping`; the worker subscribes to `*`."""
    return f"{PREFIX}.worker.{session}.{worker}.{verb}"


def replies(gateway: str) -> str:
    return f"{PREFIX}.reply.{gateway}.>"


def reply(gateway: str, session: str, number: int) -> str:
    return f"{PREFIX}.reply.{gateway}.{session}.{number}"


def trace(gateway: str) -> str:
    """An unused subject, for the reports of the NATS server about one message."""
    return f"{PREFIX}.trace.{gateway}.{secrets.token_hex(4)}"


def host(session: str) -> str:
    return f"{PREFIX}.host.{session}"


def forward(gateway: str, session: str) -> str:
    """The subject on which a gateway receives host calls that NATS delivered to another gateway."""
    return f"{PREFIX}.forward.{gateway}.{session}"


def inbox(session: str) -> str:
    """The prefix of the subjects for answers to a session's workers."""
    return f"{PREFIX}.inbox.{session}"


def session_end(session: str) -> str:
    return f"{PREFIX}.end.{session}"
