"""`windlass runs resume`: goes on in this process with runs whose own process is gone."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from windlass.cli.model_selection import Chosen, choose_model, load_model, open_client
from windlass.cli.output import Output
from windlass.cli.runs.display import Form, Teller, stage_for
from windlass.cli.runs.following import ended, say
from windlass.cli.runs.log_file import RunsFile, find_run, opened
from windlass.client import AsyncRun
from windlass.client.origin import KIND, Origin
from windlass.errors import ConfigError, RunInterrupted, WindlassError
from windlass.events import RunEnded
from windlass.gateway.config import GatewayConfig, examine_config, find_config, load_config
from windlass.loop.approval import ApprovalHook
from windlass.runs.records import RunRecord

TakeUp: TypeAlias = Callable[[RunRecord], Awaitable[AsyncRun | None]]
"""Goes on with a run; None if another process was faster."""


class Resumption(Struct, frozen=True, kw_only=True):
    """How runs are gone on with."""

    model: str | None = None
    tools: Sequence[str] = ()
    config: Path | None = None
    approve: ApprovalHook | None = None
    """None waits for `windlass runs approve`."""
    force: bool = False
    form: Form = "text"
    quiet: bool = False


async def resume(path: Path, given: Sequence[str], how: Resumption, output: Output) -> int:
    """Goes on with these runs one after the other, or with all that were cut off."""
    async with opened(path) as log:
        records = await _chosen(log, given)
    if not records:
        say("no run is cut off: there is nothing to go on with")
        return 0
    codes: list[int] = []
    for model in dict.fromkeys(_home(record) for record in records):
        of_it = [record for record in records if _home(record) == model]
        async with _taker(path, of_it, how) as take_up:
            for record in of_it:
                codes.append(await _gone_on(take_up, record, how, output))
    return 1 if 1 in codes else max(codes)


async def _chosen(log: RunsFile, given: Sequence[str]) -> list[RunRecord]:
    """Oldest first. Raises `WindlassError` for a run that needs nobody."""
    gone = await log.cut_off()
    if not given:
        return [record for record in reversed(await log.list(open=True)) if record.id in gone]
    records = [await find_run(log, each) for each in given]
    for record in records:
        if record.reason is not None:
            raise WindlassError(f"{record.id} has ended already: {record.reason}")
        if record.id not in gone:
            raise WindlassError(
                f"{record.id} goes in another process: `windlass runs follow {record.id}` shows it"
            )
    return records


def _home(record: RunRecord) -> tuple[str, str]:
    return record.origin.get("kind", ""), record.model


@asynccontextmanager
async def _taker(
    path: Path, records: Sequence[RunRecord], how: Resumption
) -> AsyncGenerator[TakeUp]:
    """What goes on with runs of one kind and model. Raises `ConfigError` if they would all fail."""
    log = RunsFile(path)
    if records[0].origin.get("kind") == KIND:
        async with _client(log, records, how) as take_up:
            yield take_up
    else:
        async with _gateway(log, records, how) as take_up:
            yield take_up


@asynccontextmanager
async def _client(
    log: RunsFile, records: Sequence[RunRecord], how: Resumption
) -> AsyncGenerator[TakeUp]:
    chosen = _model_of(records[0], how)
    if not how.force:
        _check_tools(records, chosen)
    client = open_client(chosen, approve=how.approve)
    client.log = log
    async with client:
        if client.model.name != records[0].model:
            raise ConfigError(
                f"{records[0].id} was begun with {records[0].model}, and {client.model.name}"
                " cannot go on with it"
            )
        await load_model(client.model, quiet=how.quiet)

        async def take_up(record: RunRecord) -> AsyncRun | None:
            log.chosen = {record.id}
            return next(iter(await client.resume()), None)

        yield take_up


@asynccontextmanager
async def _gateway(
    log: RunsFile, records: Sequence[RunRecord], how: Resumption
) -> AsyncGenerator[TakeUp]:
    try:
        from windlass.gateway.gateway import Gateway
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{records[0].id} is a gateway's run, and that needs {error.name}:"
            " pip install 'windlass[gateway]'"
        ) from error
    config = load_config(how.config or find_config(Path()), os.environ)
    if not how.force:
        _check_served(records, config)
    gateway = Gateway(config, log=log)

    async def take_up(record: RunRecord) -> AsyncRun | None:
        log.chosen = {record.id}
        runs = await gateway.resume()
        return runs[0].run if runs else None

    try:
        yield take_up
    finally:
        await gateway.aclose()


async def _gone_on(take_up: TakeUp, record: RunRecord, how: Resumption, output: Output) -> int:
    """Shows the run from where it was cut off; the exit code. An interruption leaves it open."""
    run = await take_up(record)
    if run is None:
        say(f"{record.id} is gone on with in another process already")
        return 0
    known = run.log.recorded()[: record.events]
    teller = Teller(record.id, record.created)
    teller.remember(known)
    stage = stage_for(how.form, teller, output, quiet=how.quiet, before=known)
    say(f"going on with {record.id}: {record.title}", quiet=how.quiet)
    end = RunEnded("stopped")
    try:
        async for event in run.events(record.events):
            stage.show(event)
            end = event if isinstance(event, RunEnded) else end
    except asyncio.CancelledError:
        await run.leave()
        stage.close()
        say(f"{record.id} is left open: `windlass runs resume {record.id}` goes on with it")
        raise
    stage.close()
    return ended(end.reason, end.error, quiet=how.quiet)


def _model_of(record: RunRecord, how: Resumption) -> Chosen:
    """The model that the run was begun with: as it is named, or configured, or by itself."""
    if how.model is not None:
        return choose_model(how.model, how.tools)
    path = how.config or find_config(Path())
    if path is not None:
        config, _ = examine_config(path, os.environ)
        for name, model in config.models.items():
            if model.target == record.model:
                return choose_model(name, how.tools)
    return choose_model(record.model, how.tools)


def _check_tools(records: Sequence[RunRecord], chosen: Chosen) -> None:
    """A run without its tools would end for good: that is not done for a forgotten option."""
    known = {tool.name: tool for tool in chosen.tools}
    for record in records:
        try:
            _, gone = Origin.read(record.origin).offer(known)
        except RunInterrupted:
            continue  # it says so itself when it is gone on with
        if gone:
            raise ConfigError(
                f"{record.id} needs tools that are not here: {', '.join(gone)}; name their file"
                " with --tools, or let such runs end with --force"
            )


def _check_served(records: Sequence[RunRecord], config: GatewayConfig) -> None:
    for record in records:
        if record.model not in config.models and not config.open_models:
            raise ConfigError(
                f"{record.id} is a gateway's run of the model {record.model!r}, which"
                f" {config.path} does not have; name another with --config, or let such runs end"
                " with --force"
            )
