"""Providers and commands of other packages: in the library, windlass.toml and commands."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.support.asgi import post

from windlass import Client
from windlass.cli import main
from windlass.errors import ConfigError
from windlass.gateway import create_app
from windlass.gateway.config import load_config
from windlass.models import PROVIDERS, create_model, plug_in, provider_names

CODE = '''
"""A provider that answers with what it was asked."""

import argparse
from contextlib import asynccontextmanager

from windlass.events import TextDelta, TurnEnded
from windlass.models import Provider, Readiness

HELP = "shout a text"


class EchoModel:
    def __init__(self, model, *, base_url=None, api_key=None, headers=None, retry=None,
                 timeouts=None):
        self.name = f"echo/{model}"

    @asynccontextmanager
    async def stream(self, request):
        async def events():
            yield TextDelta(f"{self.name} heard: {request.messages[-1].text}")
            yield TurnEnded("stop")

        yield events()

    async def aclose(self):
        pass


PROVIDER = Provider(
    create=EchoModel,
    default_model="loud",
    parts=frozenset({"image"}),
    readiness=lambda: Readiness(False, "the echo is broken", "echo repair"),
    telemetry_name="acme.echo",
)


def configure(parser):
    parser.add_argument("text")


def run(options):
    print(options.text.upper())
    return 0
'''
ENTRIES = """\
[windlass.providers]
echo = acme_echo:PROVIDER
plain = acme_echo:EchoModel
broken = acme_echo:missing
number = acme_echo:HELP
openai = acme_echo:EchoModel

[windlass.commands]
shout = acme_echo
run = acme_echo
fails = acme_missing
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an installed package, as pip would leave it."""
    site = tmp_path / "site"
    info = site / "acme_echo-1.2.dist-info"
    info.mkdir(parents=True)
    (site / "acme_echo.py").write_text(CODE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-echo\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.delitem(sys.modules, "acme_echo", raising=False)
    monkeypatch.chdir(tmp_path)
    return site


@pytest.mark.parametrize("provider", ["echo", "plain"])
def test_a_package_adds_a_provider_to_the_library(installed: Path, provider: str) -> None:
    with Client(f"{provider}/loud") as client:
        assert client.generate("Hi").text == "echo/loud heard: Hi"
    assert {provider, "aistudio", "openai"} <= set(provider_names())


async def test_a_package_adds_a_provider_to_windlass_toml(installed: Path) -> None:
    toml = installed.parent / "windlass.toml"
    toml.write_text('[models.fast]\ntarget = "echo/loud"\n')
    app = create_app(load_config(toml, os.environ))
    asked = {"model": "fast", "messages": [{"role": "user", "content": "Hi"}]}
    answer = await post(app, asked)
    await app.gateway.aclose()
    assert answer.json["choices"][0]["message"]["content"] == "echo/loud heard: Hi"


def test_a_package_adds_a_provider_to_the_command_line(
    installed: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["run", "--model", "echo/loud", "Hi"]) == 0
    assert capfdbinary.readouterr().out.decode().strip() == "echo/loud heard: Hi"
    assert main(["models", "--json"]) == 0
    listed = {each["name"]: each for each in json.loads(capfdbinary.readouterr().out)}
    echo, plain = listed["echo/..."], listed["plain/..."]
    assert (echo["target"], echo["usable"], echo["remedy"]) == ("echo/loud", False, "echo repair")
    assert (plain["usable"], plain["because"]) == (True, "installed by acme-echo 1.2")
    assert "missing" in listed["broken/..."]["because"]
    assert main(["check-config", "missing.toml"]) != 0


@pytest.mark.process
def test_a_package_adds_a_command(installed: Path) -> None:
    """In a process of its own, as a user types it."""

    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "windlass", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert ran("shout", "hello").stdout == "HELLO\n"
    shown = ran("--help").stdout
    assert "shout a text" in shown
    assert "sign in to the AI Studio page" in shown
    fails = ran("fails")
    assert (fails.returncode, "cannot load the command 'fails'" in fails.stderr) == (2, True)
    assert "shout a text" not in ran("run", "--help").stdout


def test_a_plug_in_never_replaces_a_provider_of_windlass(
    installed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert type(create_model("openai/m", api_key="k")).__module__ == "windlass.models.openai"
    assert plug_in("openai") is None
    provider_names()
    assert "ignoring the plug-in 'openai'" in caplog.text


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ("broken", r"cannot load the provider 'broken' from acme_echo:missing"),
        ("number", r"must be a class, a function or a Provider, but acme_echo:HELP is str"),
        ("nobody", r"unknown provider 'nobody'.*supported: .*aistudio.*echo"),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_named(installed: Path, provider: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        create_model(f"{provider}/m")


def test_the_gateway_uses_the_provider_description_of_a_plug_in(installed: Path) -> None:
    from windlass.gateway.models.served_model import attachments_of
    from windlass.gateway.observe.spans import provider_name

    assert attachments_of("echo") == ["image"]
    assert (provider_name("echo"), provider_name("aistudio")) == ("acme.echo", "gcp.gemini")


def test_aistudio_is_a_plug_in_like_any_other() -> None:
    assert "aistudio" not in PROVIDERS
    project: Any = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    groups = project["project"]["entry-points"]
    assert groups["windlass.providers"]["aistudio"] == "windlass.models.aistudio:PROVIDER"
    assert plug_in("aistudio") is not None


@pytest.mark.process
def test_the_page_is_imported_only_when_it_is_used() -> None:
    code = (
        "import sys, windlass, windlass.gateway, windlass.cli.run, windlass.cli.doctor,"
        " windlass.cli.models, windlass.testing;"
        "print([name for name in sys.modules if name.startswith('windlass.models.aistudio')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
