"""Weights: found in packages, joined once, checked, refused."""

import hashlib
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from windlass.errors import ConfigError
from windlass.models.local.weights import (
    CATALOG,
    Weights,
    WeightsPiece,
    WeightsProgress,
    cache_folder,
    locked,
    weights_file,
)

CONTENT = (b"GGUF one ", b"two ", b"three")


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """Weights in three packages, installed where Python looks for packages."""
    site = tmp_path / "site"
    for number, content in enumerate(CONTENT):
        folder = site / f"windlass_test_part{number}" / "data"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text("raise ImportError('never imported')")
        (folder / "part.bin").write_bytes(content)
    monkeypatch.syspath_prepend(site)
    whole = b"".join(CONTENT)
    return Weights(
        name="test",
        title="Test 1B",
        pieces=tuple(WeightsPiece(f"windlass_test_part{n}", "data/part.bin") for n in range(3)),
        packages=tuple(f"windlass-test-part{n}==1.0" for n in range(3)),
        size=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
        profile="small",
        extra="local",
    )


def piece(weights: Weights, number: int, tmp_path: Path) -> Path:
    return tmp_path / "site" / weights.pieces[number].module / weights.pieces[number].file


def test_pieces_are_joined_in_order_with_progress(weights: Weights, tmp_path: Path) -> None:
    seen: list[WeightsProgress] = []
    path = weights_file(weights, tmp_path / "cache", seen.append)
    assert path.read_bytes() == b"".join(CONTENT)
    assert [each.done for each in seen] == [9, 13, 18]
    assert {(each.stage, each.total) for each in seen} == {("joining", 18)}


def test_joined_weights_are_not_joined_again(weights: Weights, tmp_path: Path) -> None:
    first = weights_file(weights, tmp_path)
    before = first.stat()
    assert weights_file(weights, tmp_path) == first
    assert first.stat().st_mtime_ns == before.st_mtime_ns


def test_weights_with_a_wrong_hash_are_refused_and_deleted(
    weights: Weights, tmp_path: Path
) -> None:
    piece(weights, 1, tmp_path).write_bytes(b"TWO ")
    cache = tmp_path / "cache"
    with pytest.raises(ConfigError, match=rf"are damaged.*must be {weights.sha256}"):
        weights_file(weights, cache)
    assert not list(cache.glob("*.gguf"))
    assert not list(cache.glob("*.partial"))


def test_weights_in_one_piece_stay_where_they_are_and_are_checked(
    weights: Weights, tmp_path: Path
) -> None:
    content = CONTENT[0]
    one = Weights(
        name="one",
        title="One",
        pieces=weights.pieces[:1],
        packages=weights.packages[:1],
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        profile="tiny",
    )
    assert weights_file(one, tmp_path / "cache") == piece(weights, 0, tmp_path)
    piece(weights, 0, tmp_path).write_bytes(b"GGUF other")
    with pytest.raises(ConfigError, match="are damaged"):
        weights_file(one, tmp_path / "cache")


def test_an_interrupted_join_leaves_no_weights(weights: Weights, tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    def interrupted(progress: WeightsProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weights_file(weights, cache, interrupted)
    assert not list(cache.glob("*.gguf"))
    assert weights_file(weights, cache).read_bytes() == b"".join(CONTENT)


def test_a_file_of_another_size_is_joined_again(weights: Weights, tmp_path: Path) -> None:
    path = weights_file(weights, tmp_path)
    path.write_bytes(b"GGUF cut")
    assert weights_file(weights, tmp_path).read_bytes() == b"".join(CONTENT)


def test_two_processes_that_join_weights_at_once_join_them_once(
    weights: Weights, tmp_path: Path
) -> None:
    joins: list[WeightsProgress] = []
    barrier = threading.Barrier(2)

    def join() -> None:
        barrier.wait(60)
        weights_file(weights, tmp_path, joins.append)

    threads = [threading.Thread(target=join) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(joins) == len(CONTENT)


def test_the_lock_excludes_others_until_it_is_released(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with locked(tmp_path / "lock"):
            order.append("second")

    with locked(tmp_path / "lock"):
        thread = threading.Thread(target=second)
        thread.start()
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]


def test_a_missing_piece_is_named_with_the_command(weights: Weights, tmp_path: Path) -> None:
    shutil.rmtree(piece(weights, 2, tmp_path).parent)
    with pytest.raises(ConfigError, match=r"windlass-test-part2==1.0.*'windlass\[local\]'"):
        weights_file(weights, tmp_path)


def test_a_full_disk_is_seen_before_anything_is_written(
    weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(path: object) -> SimpleNamespace:
        return SimpleNamespace(free=5_000_000)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    with pytest.raises(ConfigError, match=r"67 MB in .*5 MB are free.*WINDLASS_CACHE"):
        weights_file(weights, tmp_path / "cache")
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_a_cache_that_cannot_be_written_is_named(weights: Weights, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot write the weights .*file.*WINDLASS_CACHE"):
        weights_file(weights, tmp_path / "file" / "cache")


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({"WINDLASS_CACHE": "/big/disk"}, "linux", "/big/disk"),
        ({"XDG_CACHE_HOME": "/x"}, "linux", "/x/windlass"),
        ({}, "linux", "~/.cache/windlass"),
        ({}, "darwin", "~/Library/Caches/windlass"),
        ({"LOCALAPPDATA": "/l"}, "win32", "/l/windlass/cache"),
    ],
)
def test_the_cache_is_where_the_user_or_the_system_wants_it(
    environ: dict[str, str], platform: str, expected: str
) -> None:
    assert cache_folder(environ, platform) == Path(expected).expanduser()


@pytest.mark.parametrize("weights", CATALOG.values(), ids=list(CATALOG), scope="function")
def test_every_known_weights_is_pinned_piece_by_piece(weights: Weights) -> None:
    assert len(weights.sha256) == 64
    assert weights.size > 0
    assert len(weights.pieces) == len(weights.packages)
    assert all("==" in package for package in weights.packages)
