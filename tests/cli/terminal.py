"""A real terminal for tests: a program in a tmux pane, used as a person would."""

import os
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

PATIENCE = 60.0
"""Seconds that an expected text may take; a machine under load is slow, and a test is not timed."""


class Terminal:
    """`with Terminal(command, home) as terminal:` runs the command until the block ends.

    It has its own tmux server, without the user's settings.
    """

    def __init__(
        self,
        command: Sequence[str],
        home: Path,
        environ: Mapping[str, str] | None = None,
        *,
        width: int = 80,
        height: int = 24,
    ) -> None:
        assert shutil.which("tmux"), "these tests need tmux: apt-get install tmux"
        # A socket's path must be short, and a test's directory is not.
        self._folder = tempfile.TemporaryDirectory(prefix="tmux")
        self._socket = f"{self._folder.name}/socket"
        self._command = shlex.join(command)
        self._home = home
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            **(environ or {}),
        }
        self._size = (width, height)
        self._pause = threading.Event()

    def __enter__(self) -> Self:
        width, height = self._size
        self._tmux(
            "-f", os.devnull, "new-session", "-d", "-x", str(width), "-y", str(height),
            # The shell outlives the program: what it showed last, and its exit code, can be read.
            f"{self._command}; echo exit code $?; exec cat",
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")
        self._folder.cleanup()

    def type(self, text: str, *keys: str) -> None:
        """Types the text, then presses the keys, by tmux's names: `Enter`, `C-c`, `Up`."""
        if text:
            self._tmux("send-keys", "-l", text)
        self.press(*keys)

    def press(self, *keys: str) -> None:
        if keys:
            self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self) -> str:
        """The screen."""
        return self._tmux("capture-pane", "-p")

    def everything(self) -> str:
        """The screen and the text that has scrolled away."""
        return self._tmux("capture-pane", "-p", "-S", "-")

    def wait_for(self, *texts: str, gone: str | None = None) -> str:
        """The screen, as soon as it has all of the texts and none of those in `gone`."""
        seen = ""
        for _ in range(int(PATIENCE / 0.05)):
            seen = self.screen()
            if all(text in seen for text in texts) and (gone is None or gone not in seen):
                return seen
            self._pause.wait(0.05)
        raise AssertionError(f"waited for {texts} (gone: {gone!r}) and saw:\n{seen}")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *arguments],
            env=self._environ,
            cwd=self._home,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"tmux {shlex.join(arguments)}: {done.stderr}"
        return done.stdout
