"""Codex CLI as npm delivers it, set up by `windlass connect codex --write`."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.npm_packages import NODE, installed

from windlass.cli import main

PACKAGES = ("@openai/codex@0.166.0",)


class CodexTask(NamedTuple):
    """The result of a task, as Codex reports it, item by item."""

    items: list[dict[str, Any]]
    usage: dict[str, int]

    @property
    def answers(self) -> list[str]:
        return [item["text"] for item in self.items if item["type"] == "agent_message"]

    @property
    def commands(self) -> list[tuple[str, int]]:
        """The output and exit code of each command that Codex ran."""
        return [
            (item["aggregated_output"], item["exit_code"])
            for item in self.items
            if item["type"] == "command_execution"
        ]

    @property
    def changes(self) -> list[tuple[str, str]]:
        """The name of each changed file, and how it was changed."""
        return [
            (Path(change["path"]).name, change["kind"])
            for item in self.items
            if item["type"] == "file_change"
            for change in item["changes"]
        ]


class Codex:
    """Codex with its own home, in a scratch directory."""

    def __init__(self, folder: Path, base_url: str, model: str, *, key: str | None = None) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        home = folder / "home"
        home.mkdir()
        own = {"CODEX_HOME": str(home), "HOME": str(home)}
        self._environ: Mapping[str, str] = {**own, **({"WINDLASS_API_KEY": key} if key else {})}
        words = ["connect", "codex", "--write", "--no-check", "--url", base_url, "--model", model]
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._environ.items():
                patch.setenv(name, value)
            assert main(words) == 0

    def does(self, task: str, *options: str, timeout: float = 120) -> CodexTask:
        """Runs `codex exec`, and checks that it succeeds."""
        program = installed("codex", PACKAGES) / "@openai" / "codex" / "bin" / "codex.js"
        # Without a sandbox, which does not work in a container. The directory is temporary.
        words = ["exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access"]
        done = subprocess.run(
            [str(NODE), str(program), *words, *options, task],
            cwd=self.work,
            env={**os.environ, **self._environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert done.returncode == 0, (done.stdout, done.stderr)
        failures = [event for event in events if event["type"] in ("error", "turn.failed")]
        assert not failures, failures
        items = [event["item"] for event in events if event["type"] == "item.completed"]
        [usage] = [event["usage"] for event in events if event["type"] == "turn.completed"]
        return CodexTask(items, usage)
