"""Follows a page of the documentation literally: its files, its commands and their output.

A fenced block with a title is a file; ```` ```sh ```` is a list of commands; a block with the title
`Output` is what the last block of commands printed. `windlass serve` and `windlass demo` keep
running until the end of the page.
"""

import os
import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

BLOCK = re.compile(
    r'^(?P<indent> *)```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n'
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
SERVERS = ("windlass serve", "windlass demo")
LISTENING = "Windlass listens on"
WAIT_SECONDS = 120


class Step(NamedTuple):
    language: str
    title: str | None
    text: str


def steps_of(page: str) -> Iterator[Step]:
    for block in BLOCK.finditer(page):
        text = textwrap.dedent(block["text"].replace(f"\n{block['indent']}\n", "\n\n"))
        yield Step(block["language"], block["title"], text)


def tab_of(page: str, title: str) -> str:
    """Returns the text of one tab."""
    _, _, rest = page.partition(f'=== "{title}"\n')
    assert rest, f"no tab {title!r}"
    return re.split(r"^(?===|\S)", rest, maxsplit=1, flags=re.MULTILINE)[0]


def commands_of(text: str) -> list[str]:
    """Returns the commands of a block, with their continuation lines and quoted lines."""
    commands: list[str] = []
    begun = ""
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        begun = f"{begun}\n{line}" if begun else line
        try:
            shlex.split(begun, comments=True)
        except ValueError:  # a quote is still open
            continue
        if begun.strip():
            commands.append(begun)
        begun = ""
    assert not begun, f"a quote is not closed: {begun}"
    return commands


class Follower:
    """Follows steps in a folder. `replacements` change addresses that are in use here."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        install: bool = False,
        replacements: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.environ = dict(environ)
        self.outputs: list[str] = []
        self._install = install
        self._replacements = replacements or {}
        self._servers: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "Follower":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in self._servers:
            server.terminate()
            server.communicate(timeout=WAIT_SECONDS)

    def follow(self, page: str) -> None:
        """Raises `AssertionError` if a command fails or its output is not that of the page."""
        printed = ""
        for step in steps_of(page):
            if step.title == "Output":
                shown, wanted = printed.strip(), step.text.strip()
                assert shown == wanted, f"the page has\n{wanted}\nbut this was printed:\n{shown}"
            elif step.title:
                path = self.folder / step.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._replaced(step.text))
            elif step.language == "sh":
                printed = "".join(self._run(each) for each in commands_of(step.text))
                self.outputs.append(printed)

    def _replaced(self, text: str) -> str:
        for old, new in self._replacements.items():
            text = text.replace(old, new)
        return text

    def _run(self, command: str) -> str:
        command = self._replaced(command)
        if export := re.fullmatch(r"export (\w+)=(\S+)", command):
            self.environ.setdefault(export[1], export[2])
            return ""
        if command.startswith("pip install") and not self._install:
            return ""
        if command.startswith(SERVERS):
            self._start(command)
            return ""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environ,
            text=True,
            capture_output=True,
            timeout=WAIT_SECONDS * 2,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        if command == "windlass init":
            path = self.folder / "windlass.toml"
            path.write_text(self._replaced(path.read_text()))
        return done.stdout

    def _start(self, command: str) -> None:
        server = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self.environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._servers.append(server)
        assert server.stdout
        seen: list[str] = []
        for line in server.stdout:
            seen.append(line)
            if LISTENING in line:
                return
        raise AssertionError(f"{command} exited:\n{''.join(seen)}")


def environment_of(programs: Path, home: Path, **variables: str) -> dict[str, str]:
    """Returns an environment with the programs of one folder first, and without your own keys."""
    return {
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONPATH": "",
        "PYTHONDONTWRITEBYTECODE": "1",
        **variables,
    }
