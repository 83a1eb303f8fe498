"""`windlass runs resume`: resumes interrupted runs in this process."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from windlass.cli.model_selection import ModelChoice, choose_model, load_model, open_client
from windlass.cli.output import CommandOutput
from windlass.cli.runs.display import EventFormatter, Form, printer_for
from windlass.cli.runs.following import ended, say
from windlass.cli.runs.log_file import RunsFile, find_run, open_log
from windlass.client import AsyncRun
from windlass.errors import ConfigError, RunInterrupted, WindlassError
from windlass.events import RunEnded
from windlass.gateway.config import GatewayConfig, examine_config, find_config, load_config
from windlass.loop.approval import ApprovalHook
from windlass.runs.origin import Origin
from windlass.runs.records import RunRecord

Resume: TypeAlias = Callable[[RunRecord], Awaitable[AsyncRun | None]]
"""Resumes a run; None if another process has resumed it."""


class ResumeOptions(Struct, frozen=True, kw_only=True):
    """How to resume runs."""

    model: str | None = None
    tools: Sequence[str] = ()
    config: Path | None = None
    approve: ApprovalHook | None = None
    """None: wait for `windlass runs approve`."""
    force: bool = False
    form: Form = "text"
    quiet: bool = False


async def resume(
    path: Path, given: Sequence[str], how: ResumeOptions, output: CommandOutput
) -> int:
    """Resumes these runs, or all interrupted runs, one after the other."""
    async with open_log(path) as log:
        records = await _chosen(log, given)
    if not records:
        say("no interrupted runs")
        return 0
    codes: list[int] = []
    for kind in dict.fromkeys(_kind_and_model(record) for record in records):
        group = [record for record in records if _kind_and_model(record) == kind]
        async with _resumer(path, group, how) as resume_run:
            for record in group:
                codes.append(await _resume_and_show(resume_run, record, how, output))
    return 1 if 1 in codes else max(codes)


async def _chosen(log: RunsFile, given: Sequence[str]) -> list[RunRecord]:
    """The runs to resume, oldest first. Raises `WindlassError` for an ended or active run."""
    interrupted = await log.cut_off()
    if not given:
        return [
            record for record in reversed(await log.list(open=True)) if record.id in interrupted
        ]
    records = [await find_run(log, each) for each in given]
    for record in records:
        if record.reason is not None:
            raise WindlassError(f"{record.id} has already ended: {record.reason}")
        if record.id not in interrupted:
            raise WindlassError(
                f"{record.id} is running in another process;"
                f" `windlass runs follow {record.id}` shows it"
            )
    return records


def _kind_and_model(record: RunRecord) -> tuple[str, str]:
    return record.origin.get("kind", ""), record.model


@asynccontextmanager
async def _resumer(
    path: Path, records: Sequence[RunRecord], how: ResumeOptions
) -> AsyncGenerator[Resume]:
    """Resumes runs of one kind and model. Raises `ConfigError` if all of them would fail."""
    log = RunsFile(path)
    if records[0].origin.get("kind") == "client":
        async with _client(log, records, how) as resume_run:
            yield resume_run
    else:
        async with _gateway(log, records, how) as resume_run:
            yield resume_run


@asynccontextmanager
async def _client(
    log: RunsFile, records: Sequence[RunRecord], how: ResumeOptions
) -> AsyncGenerator[Resume]:
    chosen = _model_of(records[0], how)
    if not how.force:
        _check_tools(records, chosen)
    client = open_client(chosen, log, approve=how.approve)
    async with client:
        if client.model.name != records[0].model:
            raise ConfigError(
                f"{records[0].id} was started with {records[0].model}: {client.model.name} cannot"
                " resume it"
            )
        await load_model(client.model, quiet=how.quiet)

        async def resume_run(record: RunRecord) -> AsyncRun | None:
            log.chosen = {record.id}
            return next(iter(await client.resume()), None)

        yield resume_run


@asynccontextmanager
async def _gateway(
    log: RunsFile, records: Sequence[RunRecord], how: ResumeOptions
) -> AsyncGenerator[Resume]:
    try:
        from windlass.gateway.gateway import Gateway
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{records[0].id} is a gateway's run: to resume it you need {error.name}:"
            " pip install 'windlass[gateway]'"
        ) from error
    config = load_config(how.config or find_config(Path()), os.environ)
    if not how.force:
        _check_served(records, config)
    gateway = Gateway(config, log=log)

    async def resume_run(record: RunRecord) -> AsyncRun | None:
        log.chosen = {record.id}
        runs = await gateway.resume()
        return runs[0] if runs else None

    try:
        yield resume_run
    finally:
        await gateway.aclose()


async def _resume_and_show(
    resume_run: Resume, record: RunRecord, how: ResumeOptions, output: CommandOutput
) -> int:
    """Shows the run from its first new event; returns its exit code. Ctrl-C interrupts it again."""
    run = await resume_run(record)
    if run is None:
        say(f"another process has already resumed {record.id}")
        return 0
    known = run.log.recorded()[: record.events]
    formatter = EventFormatter(record.id, record.created)
    formatter.remember(known)
    printer = printer_for(how.form, formatter, output, quiet=how.quiet, before=known)
    say(f"resuming {record.id}: {record.title}", quiet=how.quiet)
    end = RunEnded("stopped")
    try:
        async for event in run.events(record.events):
            printer.show(event)
            end = event if isinstance(event, RunEnded) else end
    except asyncio.CancelledError:
        await run.leave()
        printer.close()
        say(f"{record.id} is interrupted: `windlass runs resume {record.id}` resumes it")
        raise
    printer.close()
    return ended(end.reason, end.error, quiet=how.quiet)


def _model_of(record: RunRecord, how: ResumeOptions) -> ModelChoice:
    """The model of the run: from --model, from windlass.toml, or by the name in its record."""
    if how.model is not None:
        return choose_model(how.model, how.tools)
    path = how.config or find_config(Path())
    if path is not None:
        config, _ = examine_config(path, os.environ)
        for name, model in config.models.items():
            if model.target == record.model:
                return choose_model(name, how.tools)
    return choose_model(record.model, how.tools)


def _check_tools(records: Sequence[RunRecord], chosen: ModelChoice) -> None:
    """Raises `ConfigError` for a run whose tools are missing: resuming it would end it."""
    known = {tool.name: tool for tool in chosen.tools}
    for record in records:
        try:
            _, missing = Origin.read(record.origin).offer(known)
        except RunInterrupted:
            continue  # the run reports the reason when it is resumed
        if missing:
            raise ConfigError(
                f"{record.id} needs missing tools: {', '.join(missing)}; name their file with"
                " --tools, or end such runs with --force"
            )


def _check_served(records: Sequence[RunRecord], config: GatewayConfig) -> None:
    for record in records:
        if record.model not in config.models and not config.open_models:
            raise ConfigError(
                f"{record.id} is a gateway's run of the model {record.model!r}, which"
                f" {config.path} does not have; name another file with --config, or end such runs"
                " with --force"
            )
