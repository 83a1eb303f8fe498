"""`windlass connect`: settings that are merged into a client's file, and proven by a request."""

import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import Ran
from tests.support.serving import Serving, config_of

from windlass.cli import main
from windlass.cli.connect.clients import (
    GatewayAddress,
    claude_settings,
    codex_settings,
    gemini_settings,
)
from windlass.errors import ConfigError
from windlass.gateway.config import KeyConfig, ModelConfig
from windlass.gateway.config.keys import new_key
from windlass.testing import ScriptedModel, refuse, say

KEY, HASH = new_key()
ADDRESS = GatewayAddress("http://127.0.0.1:8080", "fast", "WINDLASS_API_KEY")
PROVIDER = {
    "name": "Windlass",
    "base_url": "http://127.0.0.1:8080/v1",
    "env_key": "WINDLASS_API_KEY",
    "wire_api": "responses",
}
FOREIGN = """\
# my settings
model = "gpt-5.5"   # the best one
approval_policy = "on-request"

[model_providers.azure]
name = "Azure"
base_url = "https://example.com/openai"

[mcp_servers.files]
command = "files"
"""

Connect = Callable[..., Ran]


@pytest.fixture
def home(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Codex's settings. It does not exist yet."""
    monkeypatch.setenv("CODEX_HOME", str(here / "codex"))
    return here / "codex"


@pytest.fixture
def connect(home: Path, capsys: pytest.CaptureFixture[str]) -> Connect:
    def start(*words: str, client: str = "codex") -> Ran:
        code = main(["connect", client, *words])
        out, error = capsys.readouterr()
        return Ran(code, out, error)

    return start


@pytest.fixture(scope="module")
def gateway() -> Iterator[Serving]:
    config = config_of(
        ModelConfig(name="fast", target="scripted/model"),
        ModelConfig(name="broken", target="scripted/model"),
        keys=(KeyConfig(name="web", hash=HASH),),
    )
    models = {
        "fast": ScriptedModel(lambda _: say("connected")),
        "broken": ScriptedModel(lambda _: refuse(400, "the upstream is closed")),
    }
    with Serving(config, models=models) as serving:
        yield serving


@pytest.fixture
def url(gateway: Serving, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of the gateway, whose key is in the environment after this."""
    monkeypatch.setenv("WINDLASS_API_KEY", KEY)
    return gateway.base_url


def merged(text: str, address: GatewayAddress = ADDRESS) -> dict[str, Any]:
    return tomllib.loads(codex_settings(text, address).text)


# Merging.


def test_an_empty_file_gets_the_provider_as_its_default() -> None:
    done = codex_settings("", ADDRESS)
    assert done.text == (
        'model = "fast"\nmodel_provider = "windlass"\n\n[model_providers.windlass]\n'
        'name = "Windlass"\nbase_url = "http://127.0.0.1:8080/v1"\n'
        'env_key = "WINDLASS_API_KEY"\nwire_api = "responses"\n'
    )
    assert done.start == "codex"


def test_the_model_of_the_user_stays_and_every_line_too() -> None:
    done = codex_settings(FOREIGN, ADDRESS)
    assert done.text.startswith(FOREIGN)
    assert tomllib.loads(done.text) == {
        **tomllib.loads(FOREIGN),
        "model_providers": {
            **tomllib.loads(FOREIGN)["model_providers"],
            "windlass": PROVIDER,
        },
    }
    assert done.start == "codex -c model_provider=windlass -m fast"
    assert done.note == "the file already names 'gpt-5.5', which stays the default"


def test_without_a_model_of_the_user_the_gateway_is_the_default() -> None:
    text = "# mine\n[mcp_servers.files]\ncommand = 'files'\n"
    found = merged(text)
    assert (found["model"], found["model_provider"]) == ("fast", "windlass")
    assert found["mcp_servers"] == {"files": {"command": "files"}}
    assert "# mine\n" in codex_settings(text, ADDRESS).text


@pytest.mark.parametrize("text", ["", FOREIGN, "[tools]\nview_image = true", "a = 1\n\n\n"])
def test_merging_twice_changes_nothing(text: str) -> None:
    once = codex_settings(text, ADDRESS).text
    assert codex_settings(once, ADDRESS).text == once


def test_another_gateway_and_model_replace_the_earlier_ones() -> None:
    before = codex_settings("personality = 'friendly'", ADDRESS).text
    before = before.replace("wire_api", "stream_idle_timeout_ms = 600000\nwire_api")
    found = merged(before, GatewayAddress("https://llm.example.com", "large"))
    assert found == {
        "personality": "friendly",
        "model": "large",
        "model_provider": "windlass",
        "model_providers": {
            "windlass": {
                "name": "Windlass",
                "base_url": "https://llm.example.com/v1",
                "stream_idle_timeout_ms": 600000,
                "wire_api": "responses",
            }
        },
    }


def test_names_are_quoted() -> None:
    odd = 'a "b" \\ é'
    assert merged("", GatewayAddress("http://h", odd))["model"] == odd


@pytest.mark.parametrize(
    "text",
    [
        "[model_providers]\nwindlass = { name = 'x' }\n",
        "model_providers = { windlass = { name = 'x' } }\n",
        'note = """\n[model_providers.windlass]\n"""\n[model_providers.windlass]\nname = "x"\n',
    ],
)
def test_a_layout_that_cannot_be_edited_is_left_alone(text: str) -> None:
    with pytest.raises(ConfigError, match="add the settings manually"):
        codex_settings(text, ADDRESS)


# Merging: Claude Code.


def claude(text: str, address: GatewayAddress = ADDRESS) -> dict[str, Any]:
    return json.loads(claude_settings(text, address).text)


def test_an_empty_file_gets_the_address_the_model_and_where_the_key_is() -> None:
    assert claude("") == {
        "apiKeyHelper": "printenv WINDLASS_API_KEY",
        "env": {
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:8080",
            "ANTHROPIC_MODEL": "fast",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": "fast",
        },
    }


def test_other_settings_of_claude_code_stay() -> None:
    mine = {"permissions": {"allow": ["Bash"]}, "env": {"EDITOR": "vi"}, "model": "opus"}
    done = claude(json.dumps(mine))
    assert {**done, "env": {"EDITOR": done["env"]["EDITOR"]}} == {
        **mine,
        "apiKeyHelper": "printenv WINDLASS_API_KEY",
    }


def test_another_gateway_without_a_key_replaces_the_earlier_one() -> None:
    other = GatewayAddress("https://llm.example.com", "large")
    there = claude(claude_settings("", ADDRESS).text, other)
    assert there == {
        "env": {
            "ANTHROPIC_BASE_URL": "https://llm.example.com",
            "ANTHROPIC_MODEL": "large",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": "large",
            "ANTHROPIC_AUTH_TOKEN": "windlass",
        }
    }
    assert claude(json.dumps(there), ADDRESS) == claude("")


@pytest.mark.parametrize(
    "mine",
    [
        {"apiKeyHelper": "pass anthropic"},
        {"env": {"ANTHROPIC_API_KEY": "sk-ant-1"}},
        {"env": {"ANTHROPIC_AUTH_TOKEN": "sk-ant-1"}},
        {"env": {"ANTHROPIC_BASE_URL": "https://proxy.example.com"}},
    ],
)
def test_a_connection_of_the_user_is_not_replaced(mine: Any) -> None:
    with pytest.raises(ConfigError, match="remove that first") as refused:
        claude_settings(json.dumps(mine), ADDRESS)
    assert "sk-ant-1" not in str(refused.value)


@pytest.mark.parametrize("text", ["[]", "{", '{"env": 1}', "// mine\n{}"])
def test_a_file_that_is_no_settings_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        claude_settings(text, ADDRESS)


def test_claude_code_is_tested_over_the_messages_api(
    connect: Connect, url: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(here / "claude"))
    words = ("--write", "--url", url, "--model", "fast")
    ran = connect(*words, client="claude")
    assert ran.code == 0, ran.error
    assert "/v1/messages ...\nok: fast answered: connected" in ran.error
    assert "Start Claude Code with: claude\n" in ran.error
    written = (here / "claude" / "settings.json").read_text()
    assert KEY not in written + ran.error
    assert "is up to date" in connect(*words, client="claude").error
    words = ("--url", url, "--model", "broken")
    ran = connect(*words, client="claude")
    assert (ran.code, "the upstream is closed" in ran.error) == (1, True), ran.error


# Merging: Gemini CLI.


def test_gemini_cli_signs_in_with_a_key_and_its_start_names_the_gateway() -> None:
    mine = {"ui": {"theme": "dark"}, "security": {"folderTrust": {"enabled": True}}}
    done = gemini_settings(json.dumps(mine), ADDRESS)
    assert json.loads(done.text) == {
        "ui": {"theme": "dark"},
        "security": {
            "folderTrust": {"enabled": True},
            "auth": {"selectedType": "gemini-api-key"},
        },
    }
    assert done.start == (
        "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:8080"
        ' GEMINI_API_KEY="$WINDLASS_API_KEY" gemini -m fast'
    )
    assert gemini_settings(done.text, ADDRESS) == done
    without_key = gemini_settings("", GatewayAddress("http://h", "a model"))
    assert without_key.start == (
        "GOOGLE_GEMINI_BASE_URL=http://h GEMINI_API_KEY=windlass gemini -m 'a model'"
    )


def test_another_way_to_sign_in_to_gemini_stays() -> None:
    mine = {"security": {"auth": {"selectedType": "oauth-personal"}}}
    with pytest.raises(ConfigError, match="remove that first"):
        gemini_settings(json.dumps(mine), ADDRESS)


def test_gemini_cli_is_tested_over_gemini_s_api(
    connect: Connect, url: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_CLI_HOME", str(here))
    words = ("--write", "--url", url, "--model", "fast")
    ran = connect(*words, client="gemini")
    assert ran.code == 0, ran.error
    assert "fast:streamGenerateContent?alt=sse ...\nok: fast answered: connected" in ran.error
    assert KEY not in (here / ".gemini" / "settings.json").read_text() + ran.error
    assert "is up to date" in connect(*words, client="gemini").error
    ran = connect("--url", url, "--model", "broken", client="gemini")
    assert (ran.code, "the upstream is closed" in ran.error) == (1, True), ran.error


# The command.


def test_without_write_the_settings_are_printed_and_tested(
    connect: Connect, url: str, home: Path
) -> None:
    ran = connect("--url", url, "--model", "fast")
    assert ran.code == 0, ran.error
    assert tomllib.loads(ran.out)["model_providers"]["windlass"] == {**PROVIDER, "base_url": url}
    assert "ok: fast answered: connected" in ran.error
    assert not home.exists()


def test_write_creates_the_file_and_prints_how_to_start(
    connect: Connect, url: str, home: Path
) -> None:
    ran = connect("--write", "--url", url, "--model", "fast")
    assert (ran.code, ran.out) == (0, "")
    assert tomllib.loads((home / "config.toml").read_text())["model"] == "fast"
    assert "Start Codex with: codex\n" in ran.error
    assert [each.name for each in home.iterdir()] == ["config.toml"]


def test_the_key_is_never_written_or_shown(connect: Connect, url: str, home: Path) -> None:
    ran = connect("--write", "--url", url, "--model", "fast")
    assert KEY not in ran.out + ran.error + (home / "config.toml").read_text()


def test_each_change_keeps_a_backup_and_none_is_made_without_one(
    connect: Connect, url: str, home: Path
) -> None:
    home.mkdir()
    file = home / "config.toml"
    file.write_text(FOREIGN)
    file.chmod(0o600)
    assert connect("--write", "--url", url, "--model", "fast").code == 0
    assert "is up to date" in connect("--write", "--url", url, "--model", "fast").error
    first = file.read_text()
    connect("--write", "--url", f"{url}/", "--key-env", "PATH", "--no-check", "--model", "fast")
    assert (home / "config.toml.bak").read_text() == FOREIGN
    assert (home / "config.toml.bak1").read_text() == first
    assert len(list(home.iterdir())) == 3
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_linked_file_stays_a_link(connect: Connect, url: str, home: Path, here: Path) -> None:
    home.mkdir()
    (here / "dotfiles.toml").write_text("")
    (home / "config.toml").symlink_to(here / "dotfiles.toml")
    assert connect("--write", "--url", url, "--model", "fast").code == 0
    assert (home / "config.toml").is_symlink()
    assert "windlass" in (here / "dotfiles.toml").read_text()


def test_a_file_that_is_not_toml_is_named_and_left_alone(connect: Connect, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("model = \n")
    ran = connect("--write", "--model", "fast", "--no-check")
    assert ran.code == 2
    assert f"cannot edit {home / 'config.toml'}: not valid TOML" in ran.error
    assert (home / "config.toml").read_text() == "model = \n"


def test_the_address_and_model_of_windlass_toml_are_the_default(
    connect: Connect, here: Path
) -> None:
    (here / "windlass.toml").write_text(
        '[server]\nhost = "0.0.0.0"\nport = 9009\n[models.mine]\ntarget = "openai/gpt-5-mini"\n'
    )
    found = tomllib.loads(connect("--no-check").out)
    assert found["model"] == "mine"
    assert found["model_providers"]["windlass"] == {
        "name": "Windlass",
        "base_url": "http://127.0.0.1:9009/v1",
        "wire_api": "responses",
    }


def test_the_first_model_of_a_remote_gateway_is_the_default(connect: Connect, url: str) -> None:
    assert tomllib.loads(connect("--url", url, "--no-check").out)["model"] == "fast"


# Failures.


def failed(ran: Ran) -> tuple[str, str]:
    assert ran.code == 1, ran
    detail, fix = ran.error.split("failed: ")[1].split("\nfix: ")
    return detail, fix.strip()


def test_a_gateway_that_does_not_run(connect: Connect) -> None:
    detail, fix = failed(connect("--url", "http://127.0.0.1:9/v1", "--model", "fast"))
    assert detail == "cannot reach http://127.0.0.1:9: Connection refused"
    assert fix == "start the gateway with `windlass serve`, or name another with --url"


def test_a_missing_key(connect: Connect, gateway: Serving) -> None:
    detail, fix = failed(connect("--url", gateway.base_url, "--model", "fast"))
    assert "status 401" in detail
    assert fix.startswith("export WINDLASS_API_KEY=KEY")


def test_an_unset_variable(connect: Connect, gateway: Serving) -> None:
    words = ("--url", gateway.base_url, "--model", "fast", "--key-env", "NOT_SET")
    assert failed(connect(*words))[1].startswith("export NOT_SET=KEY")


def test_a_wrong_key(connect: Connect, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_API_KEY", "wl_wrong")
    _, fix = failed(connect("--url", url, "--model", "fast"))
    assert fix == "check that WINDLASS_API_KEY contains a key that the gateway knows"


def test_an_unknown_model(connect: Connect, url: str) -> None:
    detail, fix = failed(connect("--url", url, "--model", "fats"))
    assert "fats" in detail
    assert fix == "name another model with --model"


def test_an_address_without_the_api(connect: Connect, url: str) -> None:
    _, fix = failed(connect("--url", f"{url}/elsewhere", "--model", "fast"))
    assert fix == "check --url: it must be the address of a gateway"


def test_a_model_that_fails(connect: Connect, url: str) -> None:
    ran = connect("--url", url, "--model", "broken")
    assert ran.code == 1
    assert "the upstream is closed" in ran.error


def test_a_key_in_place_of_a_variable_s_name_is_refused(connect: Connect) -> None:
    ran = connect("--key-env", "sk-123", "--model", "m")
    assert (ran.code, "sk-123" in ran.error) == (2, False)


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://h", "http://", "http://h/?a=1"])
def test_an_address_must_be_http(connect: Connect, url: str) -> None:
    ran = connect("--url", url, "--model", "m")
    assert ran.code == 2
    assert f"not {url!r}" in ran.error


def test_a_model_must_be_named_where_the_gateway_cannot_be_asked(connect: Connect) -> None:
    ran = connect("--url", "http://127.0.0.1:9")
    assert ran.code == 2
    assert "Connection refused; name one with --model" in ran.error
