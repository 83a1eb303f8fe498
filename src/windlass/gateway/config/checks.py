"""Checks of single settings that a type cannot express. Pure.

The functions `..._problem` return an error message or None. A message never repeats a value that
may be a secret.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from windlass.errors import ConfigError
from windlass.gateway.config.keys import is_key_hash
from windlass.gateway.config.problems import nearest
from windlass.models import provider_names
from windlass.pricing import exact

_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_.])?")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SESSION_PATTERN = re.compile(r"[A-Za-z0-9_*?\[\]!-]+")
_USUAL_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def cost_from(value: Any) -> Decimal:
    """A cost above 0. Raises `ConfigError`."""
    try:
        cost = exact(value, "")
    except ConfigError:
        cost = Decimal(0)
    if not cost:
        raise ConfigError(f"must be a number above 0, not {value!r:.60}")
    return cost


def target_problem(target: str) -> str | None:
    provider, slash, model = target.partition("/")
    if not (provider and slash and model) or not target.isprintable():
        return f"must be provider/model, such as 'openai/gpt-5-mini', not {target!r}"
    if provider not in (known := provider_names()):
        return f"unknown provider {provider!r}{nearest(provider, known)}"
    return None


def host_problem(host: str) -> str | None:
    if _address(host) or _HOST_NAME.fullmatch(host):
        return None
    return f"must be an IP address or a host name, without scheme, port or brackets, not {host!r}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    address = _address(host)
    return address.is_loopback if address else host.lower() == "localhost"


def origin_problem(origin: str) -> str | None:
    if origin == "*":
        return None
    parts = _split(origin)
    if parts is None or f"{parts[0]}://{parts[1]}" != origin or "@" in origin:
        return "must be '*' or scheme://host without a path, such as 'https://chat.example.com'"
    return None


def url_problem(url: str) -> str | None:
    parts = _split(url)
    if parts is None or parts[0] not in ("http", "https"):
        return "must be a URL that starts with http:// or https://"
    return None


def header_problem(header: tuple[str, str]) -> str | None:
    name, value = header
    if not _HEADER_NAME.fullmatch(name):
        return "not a valid header name"
    if not (value.isascii() and value.isprintable()):
        return "the value of a header must be printable ASCII"
    return None


def variable_problem(name: str, environ: Mapping[str, str]) -> str | None:
    """Does not repeat an unusual name, because it may be the key itself."""
    if environ.get(name):
        return None
    if _USUAL_VARIABLE.fullmatch(name):
        return f"the environment variable {name} is not set"
    return (
        "must be the name of an environment variable that is set, such as OPENAI_API_KEY;"
        " never write the key itself here"
    )


def session_problem(pattern: str) -> str | None:
    """Rejects a pattern that cannot match the name of any session."""
    if _SESSION_PATTERN.fullmatch(pattern):
        return None
    return (
        f"{pattern!r} matches no session: names have letters, digits, `-` and `_`,"
        " and patterns may also use `*`, `?` and `[...]`"
    )


def name_problem(name: str) -> str | None:
    return None if name.isprintable() else "a name must not contain control characters"


def hash_problem(hash: str) -> str | None:
    if is_key_hash(hash):
        return None
    return "must be 'sha256:' and 64 hexadecimal digits: `windlass keys new` prints one"


def repetition_problem(names: tuple[str, ...]) -> str | None:
    twice = [repr(name) for name, count in Counter(names).items() if count > 1]
    return f"lists {', '.join(twice)} twice" if twice else None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _split(url: str) -> tuple[str, str] | None:
    """The scheme and the host with its port; None if the URL is invalid."""
    try:
        parts = urlsplit(url)
        complete = bool(parts.scheme and parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return None
    printable = url.isprintable() and " " not in url
    return (parts.scheme, parts.netloc) if complete and printable else None
