"""Keys are random, stored as hashes, and read from both headers."""

import hmac
import re

import pytest

from windlass.gateway.config import KeyConfig
from windlass.gateway.config.keys import KeyRing, is_key_hash, key_hash, new_key, presented_key

PAIRS = [new_key() for _ in range(3)]
KEYS = [KeyConfig(name=f"key {n}", hash=hashed) for n, (_, hashed) in enumerate(PAIRS)]


def test_a_key_is_32_random_bytes_and_its_hash_does_not_contain_it() -> None:
    key, hashed = new_key()
    assert re.fullmatch(r"wl_[A-Za-z0-9_-]{43}", key)
    assert hashed == key_hash(key)
    assert is_key_hash(hashed)
    assert key not in hashed
    assert len({key for key, _ in PAIRS}) == 3


def test_the_hash_is_a_plain_sha256_that_other_tools_can_make() -> None:
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert key_hash("abc") == f"sha256:{digest}"


def test_a_key_ring_finds_the_entry_of_a_key() -> None:
    ring = KeyRing(KEYS)
    assert ring.required
    assert [ring.find(key) for key, _ in PAIRS] == KEYS


@pytest.mark.parametrize(
    "presented",
    [None, "", "wl_wrong", pytest.param(KEYS[0].hash, id="a hash"), "schlüssel", "\udcff"],
)
def test_an_invalid_key_has_no_entry(presented: str | None) -> None:
    assert KeyRing(KEYS).find(presented) is None
    assert KeyRing([]).find(presented) is None


def test_an_empty_key_ring_requires_no_key() -> None:
    assert not KeyRing([]).required


def test_the_search_compares_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []
    compare = hmac.compare_digest

    def counting(known: bytes, given: bytes) -> bool:
        compared.append(known)
        return compare(known, given)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    ring = KeyRing(KEYS)
    for key in (PAIRS[0][0], PAIRS[2][0], "wl_wrong"):
        compared.clear()
        ring.find(key)
        assert compared == [key.hash.encode() for key in KEYS]


@pytest.mark.parametrize(
    "headers",
    [
        [(b"authorization", b"Bearer wl_abc")],
        [(b"authorization", b"bearer wl_abc")],
        [(b"authorization", b"BEARER   wl_abc  ")],
        [(b"x-api-key", b"wl_abc")],
        [(b"host", b"x"), (b"x-api-key", b" wl_abc ")],
        [(b"authorization", b"Basic abc"), (b"x-api-key", b"wl_abc")],
        [(b"authorization", b"Bearer wl_abc"), (b"x-api-key", b"other")],
    ],
)
def test_a_key_is_read_from_either_header(headers: list[tuple[bytes, bytes]]) -> None:
    assert presented_key(dict(headers)) == "wl_abc"


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"")],
        [(b"authorization", b"Bearer")],
        [(b"authorization", b"Bearer ")],
        [(b"authorization", b"Bearerwl_abc")],
        [(b"authorization", b"wl_abc")],
        [(b"authorization", b"Basic wl_abc")],
        [(b"authorization", b"Bearer wl_abc def")],
        [(b"authorization", b"Bearer wl_\xff")],
        [(b"authorization", "Bearer schlüssel".encode())],
        [(b"authorization", b"Bearer wl_\x00")],
        [(b"x-api-key", b"")],
        [(b"x-api-key", b"\xc3\x28")],
    ],
)
def test_a_malformed_header_contains_no_key(headers: list[tuple[bytes, bytes]]) -> None:
    assert presented_key(dict(headers)) is None
