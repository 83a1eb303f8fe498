"""The gateway's run log: which one the configuration asks for, and how long it stores runs."""

import logging
from typing import Any

from windlass.errors import ConfigError, StorageError
from windlass.gateway.config import GatewayConfig, RunsConfig
from windlass.runs.control import NOT_WRITTEN, RunControl
from windlass.runs.protocol import RunLog
from windlass.runs.records import Retention

log = logging.getLogger("windlass.gateway")

DAY_SECONDS = 86_400.0
STOP_SECONDS = 15.0
"""How long a stop waits for the process that runs the run."""
DECISION_SECONDS = 15.0
"""How long a decision waits for that process."""


def configured_log(config: GatewayConfig) -> RunLog | None:
    """The configured log, or None. Raises `ConfigError` if a package that it needs is missing."""
    runs = config.runs
    if runs.nats:
        try:
            from windlass.runs.jetstream import JetStreamLog
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"runs in NATS need {error.name}: pip install 'windlass[fleet]'"
            ) from None
        options: dict[str, Any] = {"user_credentials": runs.creds} if runs.creds else {}
        return JetStreamLog(list(runs.nats), replicas=runs.replicas, **options)
    if runs.path is None:
        return None
    from windlass.runs.sqlite import SQLiteLog
    from windlass.runs.sqlite.writer import RESERVE_BYTES

    path = config.base / runs.path
    return SQLiteLog(path, synchronous=runs.synchronous, reserve=RESERVE_BYTES)


def control_of(log: RunLog | None) -> RunControl | None:
    """Controls the runs of the log, and logs when it fails and works again."""
    if log is None:
        return None
    log.health.on_change = _log_change
    return RunControl(log, stop_seconds=STOP_SECONDS, decision_seconds=DECISION_SECONDS)


def _log_change(cause: str | None) -> None:
    """Logs the start and the end of a failure, each once."""
    if cause is None:
        log.warning("run log can be written again")
    else:
        log.error(NOT_WRITTEN.format(cause=cause))


async def expire(runs: RunLog, config: RunsConfig) -> None:
    """Deletes runs that exceed the configured age, number or size."""
    retention = Retention(
        max_age=None if config.keep_days is None else config.keep_days * DAY_SECONDS,
        max_runs=config.max_runs,
        max_bytes=config.max_bytes,
    )
    try:
        deleted = await runs.expire(retention)
    except StorageError as error:
        log.error("Cannot delete old runs: %s", error)
        return
    if deleted:
        log.info("Old runs deleted", extra={"runs": deleted})
