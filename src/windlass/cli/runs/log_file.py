"""The file with stored runs: where it is, and how a run in it is found."""

import tomllib
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from windlass.cli.output import one_line
from windlass.errors import ConfigError, RunNotFound
from windlass.gateway.config import CONFIG_NAME, find_config
from windlass.runs.protocol import RunLog
from windlass.runs.records import RunRecord
from windlass.runs.sqlite import SQLiteLog

DEFAULT = Path("windlass.db")
_PREFIX = "run_"
SHORT_ID_LENGTH = 8
MAX_MATCHES = 5


def find_log(given: Path | None) -> Path:
    """The given file, or the `[runs] path` of `windlass.toml` here, or `windlass.db` here.

    Raises `ConfigError` if the file does not exist.
    """
    if given is not None:
        return _existing(given, "named by --log")
    config = find_config(Path())
    if config is not None and (named := _configured(config)) is not None:
        return _existing(named, f"named by [runs] path in {config}")
    if DEFAULT.is_file():
        return DEFAULT
    raise ConfigError(
        f"no stored runs here: there is no {DEFAULT}, and no {CONFIG_NAME} with a [runs] path;"
        " name the file with --log FILE"
    )


class RunsFile(SQLiteLog):
    """A log that claims only the chosen runs."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.chosen: Collection[str] = ()
        """The ids of the runs to resume."""

    async def claim(self, wanted: Callable[[RunRecord], bool] = bool) -> list[RunRecord]:
        return await super().claim(lambda record: record.id in self.chosen and wanted(record))


@asynccontextmanager
async def open_log(path: Path) -> AsyncGenerator[RunsFile]:
    log = RunsFile(path)
    try:
        yield log
    finally:
        await log.aclose()


async def find_run(log: RunLog, given: str) -> RunRecord:
    """The run whose id is or begins with `given`; `run_` can be omitted.

    Raises `RunNotFound`.
    """
    try:
        return await log.status(given)
    except RunNotFound:
        pass
    records = await log.list()
    found = [each for each in records if each.id.startswith((given, f"{_PREFIX}{given}"))]
    if not given or not found:
        raise RunNotFound(f"unknown run {given!r}; `windlass runs list` lists all runs")
    if len(found) > 1:
        some = "".join(f"\n  {each.id}  {one_line(each.title)}" for each in found[:MAX_MATCHES])
        more = "\n  ..." if len(found) > MAX_MATCHES else ""
        raise RunNotFound(f"{given!r} matches {len(found)} runs:{some}{more}")
    return found[0]


def short_id(run_id: str) -> str:
    """The beginning of an id, long enough to be unique in practice."""
    return run_id[: len(_PREFIX) + SHORT_ID_LENGTH]


def _existing(path: Path, why: str) -> Path:
    if not path.is_file():
        raise ConfigError(f"{path} does not exist ({why}); the first stored run creates it")
    return path


def _configured(config: Path) -> Path | None:
    """Reads only `[runs] path`: a list of runs does not need the tools."""
    try:
        content = tomllib.loads(config.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"cannot read {config}: {error}; name the file with --log") from error
    section: Any = content.get("runs")
    named: Any = cast("dict[str, Any]", section).get("path") if isinstance(section, dict) else None
    return config.parent / named if isinstance(named, str) else None
