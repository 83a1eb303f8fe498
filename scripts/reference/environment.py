"""Writes the page about environment variables. A test compares it with the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from scripts.reference import markdown
from scripts.reference.markdown import table
from scripts.reference.python_api import package

from windlass.cli.providers import SERVICES
from windlass.models.aistudio import config as aistudio
from windlass.settings import FunctionCallingSettings

SOURCE = Path(__file__).parents[2] / "src" / "windlass"
NAME = re.compile(r"(?:WINDLASS|OTEL|OPENAI|ANTHROPIC|GEMINI|GOOGLE|VERTEX|CODEX|CLAUDE)_[A-Z_]+")
OWN = {
    "WINDLASS_HOST": ("`127.0.0.1`", "The address of `windlass serve`, if the file has none"),
    "WINDLASS_PORT": ("`8080`", "The port of `windlass serve`, if the file has none"),
    "WINDLASS_MODEL": (
        "none",
        "Models of a gateway without a file: `NAME=provider/model`, separated by commas",
    ),
    "WINDLASS_TOOLS": (
        "none",
        "Tool files of a gateway without a file, separated by commas or `:`",
    ),
    "WINDLASS_API_KEY": ("none", "The key of the gateway that `windlass connect` sets up"),
    "WINDLASS_CACHE": (
        "`~/.cache/windlass`",
        "Where the weights of [the embedded model](../local.md) are joined",
    ),
    "WINDLASS_LOCAL_CONTEXT": ("`8192`", "The context of the embedded model, in tokens"),
    "WINDLASS_MCP_KEY": (
        "none",
        "The secret that encrypts [logins of MCP servers](../mcp.md#logins); without it, a file",
    ),
    "WINDLASS_PROCESS": (
        "none",
        "Set by `windlass serve --processes` for its processes; never set it yourself",
    ),
    "WINDLASS_NATS": ("`nats://127.0.0.1:4222`", "The NATS servers of `windlass worker`"),
    "WINDLASS_STATE_DIR": (
        "`~/.local/state/windlass`",
        "Where chats of the terminal, MCP logins and pinned descriptions are stored",
    ),
}
OTHERS = {
    "GOOGLE_CLOUD_LOCATION": "The region of `vertex/`",
    "CODEX_HOME": "The folder of Codex, for `windlass connect`",
    "CLAUDE_CONFIG_DIR": "The folder of Claude Code, for `windlass connect`",
    "GEMINI_CLI_HOME": "The folder of Gemini CLI, for `windlass connect`",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "The address of an OpenTelemetry collector: turns traces on",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "The same, for traces only",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "The protocol of the exporter; only `http/protobuf`",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "The same, for traces only",
    "OTEL_TRACES_EXPORTER": "`otlp`, `console` or `none`",
    "OTEL_SDK_DISABLED": "`true` turns traces off",
}
NOT_VARIABLES = {
    *("WINDLASS_LEASES", "WINDLASS_LIMITS", "WINDLASS_LOG", "WINDLASS_OPEN", "WINDLASS_ORDERS"),
    *("WINDLASS_PIECES", "WINDLASS_RUNS"),  # streams and buckets of JetStream
    *("ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL"),  # settings that `connect` writes
}


def in_code() -> set[str]:
    """Returns the names in the package that look like environment variables."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        source = path.read_text()
        if NAME.search(source) is None:  # a search is much faster than parsing
            continue
        for node in ast.walk(ast.parse(source)):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and NAME.fullmatch(text):
                found.add(text)
    return found - NOT_VARIABLES


def _services() -> Iterator[tuple[str, str]]:
    found: dict[str, list[str]] = {}
    for service in SERVICES:
        for name in (*service.keys, *service.needs):
            found.setdefault(name, []).append(f"`{service.name}/`")
        if service.address:
            found.setdefault(service.address, []).append(f"`{service.name}/`")
    for name, owners in found.items():
        what = "The address of" if name.endswith("_URL") else "The key of"
        what = "The project of" if name.endswith("_PROJECT") else what
        yield name, f"{what} {' and '.join(owners)}"


def _function_calling() -> Iterator[tuple[str, str, str]]:
    kind = package()["settings.FunctionCallingSettings"]
    for field in msgspec.structs.fields(FunctionCallingSettings):
        docstring = kind[field.name].docstring
        default = "none" if field.default is None else f"`{field.default}`".lower()
        yield f"`{field.encode_name}`", default, docstring.value if docstring else ""


def _aistudio() -> Iterator[tuple[str, str, str]]:
    for name, default, meaning in re.findall(
        r"^\| (`WINDLASS_\w+`) \| (.+?) \| (.+) \|$", aistudio.__doc__ or "", re.MULTILINE
    ):
        yield name, default, meaning[0].upper() + meaning[1:]


def explained() -> set[str]:
    """Returns the names on the page, without those of function calling."""
    return {*OWN, *OTHERS, *dict(_services()), *(name.strip("`") for name, *_ in _aistudio())}


def page() -> str:
    services = dict(_services())
    three = ("Variable", "Default", "Meaning")
    return markdown.page(
        "Environment variables",
        "An empty variable counts as not set. `windlass.toml` and the command line override "
        "`WINDLASS_HOST` and `WINDLASS_PORT`.\n",
        "## Windlass\n",
        table(three, ((f"`{name}`", *facts) for name, facts in sorted(OWN.items()))),
        "\n## Function calling\n",
        "[Models without function calling](../emulation.md) explains them.\n",
        table(three, _function_calling()),
        "\n## The AI Studio page\n",
        "See [the AI Studio page](../aistudio.md).\n",
        table(three, _aistudio()),
        "\n## Providers\n",
        "`api_key=` and `base_url=` of a client, and `api_key_env` and `base_url` of a model, "
        "override them.\n",
        table(("Variable", "Meaning"), ((f"`{name}`", text) for name, text in services.items())),
        "\n## Other programs\n",
        table(("Variable", "Meaning"), ((f"`{name}`", text) for name, text in OTHERS.items())),
    )
