"""Prompts from files: a folder of Markdown files, each one prompt.

A file can begin with settings in TOML between two lines `+++`. `{{name}}` is replaced by an
argument. A line that is only `![text](file)` is a medium, and a line that is only `<address>` is a
resource.
"""

import base64
import logging
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import mcp_types as types
import msgspec
from msgspec import Struct

from windlass.content import guessed_type
from windlass.errors import ConfigError

log = logging.getLogger("windlass.mcp")

_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}")
_MEDIUM = re.compile(r"!\[([^\]]*)\]\(([^()\s]+)\)")
_RESOURCE = re.compile(r"<([A-Za-z][A-Za-z0-9+.-]*:[^<>\s]+)>")
FENCE = "+++"


class PromptArgument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An argument of a prompt, `[arguments.NAME]` in its settings."""

    description: str | None = None
    required: bool = True
    values: tuple[str, ...] = ()
    """The values that a client can suggest while its user types."""


class _PromptSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str | None = None
    description: str | None = None
    arguments: dict[str, PromptArgument] = {}


class ResourceBlock(Struct, frozen=True):
    """A resource of a prompt, which the server reads."""

    uri: str


Block: TypeAlias = types.TextContent | types.ImageContent | types.AudioContent | ResourceBlock


class Prompt(Struct, frozen=True, kw_only=True):
    """One prompt."""

    name: str
    title: str | None
    description: str | None
    arguments: dict[str, PromptArgument]
    text: str
    folder: Path

    def listed(self) -> types.Prompt:
        arguments = [
            types.PromptArgument(name=name, description=each.description, required=each.required)
            for name, each in self.arguments.items()
        ]
        return types.Prompt(
            name=self.name,
            title=self.title,
            description=self.description,
            arguments=arguments or None,
        )

    def blocks(self, given: Mapping[str, str]) -> list[Block]:
        """The content with these arguments. Raises `ConfigError`."""
        missing = [n for n, each in self.arguments.items() if each.required and n not in given]
        if missing:
            raise ConfigError(f"missing arguments: {', '.join(missing)}")
        blocks: list[Block] = []
        lines: list[str] = []

        def end_text() -> None:
            if text := "\n".join(lines).strip():
                blocks.append(types.TextContent(text=text))
            lines.clear()

        for line in self.text.splitlines():
            medium = _MEDIUM.fullmatch(line.strip())
            filled = _PLACEHOLDER.sub(lambda found: given.get(found[1], ""), line)
            resource = _RESOURCE.fullmatch(filled.strip())
            if medium is not None:
                end_text()
                blocks.append(self._medium(medium[2]))
            elif resource is not None:
                end_text()
                blocks.append(ResourceBlock(resource[1]))
            else:
                lines.append(filled)
        end_text()
        return blocks

    def _medium(self, name: str) -> types.ImageContent | types.AudioContent:
        file = (self.folder / name).resolve()
        kind = guessed_type(name) or ""
        if not file.is_relative_to(self.folder.resolve()) or not file.is_file():
            raise ConfigError(f"the prompt {self.name!r} has no file {name!r} beside it")
        data = base64.b64encode(file.read_bytes()).decode("ascii")
        if kind.startswith("audio/"):
            return types.AudioContent(data=data, mime_type=kind)
        if kind.startswith("image/"):
            return types.ImageContent(data=data, mime_type=kind)
        raise ConfigError(f"{name!r} in the prompt {self.name!r} is neither an image nor audio")


def read_prompt(file: Path) -> Prompt:
    """Reads a file. Raises `ConfigError`."""
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the prompt {file} cannot be read: {error}") from None
    settings: Any = {}
    if text.startswith(f"{FENCE}\n"):
        head, fence, text = text.removeprefix(f"{FENCE}\n").partition(f"\n{FENCE}\n")
        if not fence:
            raise ConfigError(f"the prompt {file}: its settings have no end, a line {FENCE}")
        try:
            settings = tomllib.loads(head)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"the prompt {file}: its settings are not TOML: {error}") from None
    try:
        read = msgspec.convert(settings, _PromptSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the prompt {file}: {error}") from None
    used = {name: PromptArgument() for name in _PLACEHOLDER.findall(text)}
    return Prompt(
        name=file.stem,
        title=read.title,
        description=read.description,
        arguments={**read.arguments, **{n: a for n, a in used.items() if n not in read.arguments}},
        text=text,
        folder=file.parent,
    )


class PromptFolder:
    """The prompts of a folder, read again when a file changes."""

    def __init__(self, folder: Path) -> None:
        """Raises `ConfigError` for a folder or a file that cannot be read."""
        if not folder.is_dir():
            raise ConfigError(f"the prompt folder {str(folder)!r} does not exist")
        self._folder = folder
        self._seen: dict[Path, int] = {}
        self._prompts: dict[str, Prompt] = {}
        self._read_changed(strict=True)

    @property
    def prompts(self) -> dict[str, Prompt]:
        """The prompts by name. A file that became invalid keeps its last content."""
        self._read_changed(strict=False)
        return self._prompts

    def _read_changed(self, *, strict: bool) -> None:
        found = {file: file.stat().st_mtime_ns for file in sorted(self._folder.glob("*.md"))}
        if found == self._seen:
            return
        prompts: dict[str, Prompt] = {}
        for file, changed in found.items():
            try:
                known = self._prompts.get(file.stem)
                fresh = known is None or self._seen.get(file) != changed
                prompts[file.stem] = read_prompt(file) if fresh or known is None else known
            except ConfigError as error:
                if strict:
                    raise
                log.warning("%s", error)
                if file.stem in self._prompts:
                    prompts[file.stem] = self._prompts[file.stem]
        self._seen, self._prompts = found, prompts
