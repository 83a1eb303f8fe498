"""The file that runs are kept in: where it is, and which run is meant."""

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
_SHORT = 8
_MOST_SHOWN = 5


def find_log(given: Path | None) -> Path:
    """The file: the one given, else that of the `windlass.toml` here, else `windlass.db` here.

    Raises `ConfigError` if it is not there.
    """
    if given is not None:
        return _there(given, "--log names it")
    config = find_config(Path())
    if config is not None and (named := _configured(config)) is not None:
        return _there(named, f"{config} names it in [runs] path")
    if DEFAULT.is_file():
        return DEFAULT
    raise ConfigError(
        f"no runs are kept here: there is no {DEFAULT}, and no {CONFIG_NAME} with a [runs] path;"
        " name the file with --log FILE"
    )


class RunsFile(SQLiteLog):
    """The file, and what a person asks of it beside what a process does."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.chosen: Collection[str] = ()
        """The runs that may be taken up."""

    async def claim(self, wanted: Callable[[RunRecord], bool] = bool) -> list[RunRecord]:
        return await super().claim(lambda record: record.id in self.chosen and wanted(record))


@asynccontextmanager
async def opened(path: Path) -> AsyncGenerator[RunsFile]:
    log = RunsFile(path)
    try:
        yield log
    finally:
        await log.aclose()


async def find_run(log: RunLog, given: str) -> RunRecord:
    """The run with that id, or the one whose id begins so; `run_` may be left out.

    Raises `RunNotFound`.
    """
    try:
        return await log.status(given)
    except RunNotFound:
        pass
    records = await log.list()
    found = [each for each in records if each.id.startswith((given, f"{_PREFIX}{given}"))]
    if not given or not found:
        raise RunNotFound(f"there is no run {given!r}; `windlass runs list` has those that are")
    if len(found) > 1:
        some = "".join(f"\n  {each.id}  {one_line(each.title)}" for each in found[:_MOST_SHOWN])
        more = "\n  ..." if len(found) > _MOST_SHOWN else ""
        raise RunNotFound(f"{given!r} begins the ids of {len(found)} runs:{some}{more}")
    return found[0]


def short_id(run_id: str) -> str:
    """As much of an id as tells runs apart in all likelihood."""
    return run_id[: len(_PREFIX) + _SHORT]


def _there(path: Path, why: str) -> Path:
    if not path.is_file():
        raise ConfigError(f"{path} is not there ({why}): the first run that is kept makes it")
    return path


def _configured(config: Path) -> Path | None:
    """Read without the rest of the file: tools need not load for a list of runs."""
    try:
        content = tomllib.loads(config.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{config} cannot be read: {error}; name the file with --log") from error
    section: Any = content.get("runs")
    named: Any = cast("dict[str, Any]", section).get("path") if isinstance(section, dict) else None
    return config.parent / named if isinstance(named, str) else None
