"""`windlass keys new`: a key on stdout, and its entry for the configuration on stderr."""

import re
import tomllib

import pytest

from windlass.cli import COMMANDS, main
from windlass.gateway.config.keys import key_hash


@pytest.fixture(autouse=True)
def command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "keys", ("windlass.cli.keys", "makes keys"))


@pytest.mark.parametrize("name", ["web", 'The "web" \\ app', "büro ☂"])
def test_the_key_is_alone_on_stdout_and_stderr_is_toml_for_the_file(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "new", "--name", name]) == 0
    out, err = capsys.readouterr()
    key = out.removesuffix("\n")
    assert re.fullmatch(r"wl_[A-Za-z0-9_-]{43}", key)
    assert tomllib.loads(err) == {"keys": [{"name": name, "hash": key_hash(key)}]}
    assert key not in err


def test_a_key_without_a_name_gets_a_generated_name(capsys: pytest.CaptureFixture[str]) -> None:
    names: set[str] = set()
    for _ in range(2):
        assert main(["keys", "new"]) == 0
        names.add(tomllib.loads(capsys.readouterr().err)["keys"][0]["name"])
    assert len(names) == 2


@pytest.mark.parametrize("name", ["", "a\nb"])
def test_an_invalid_name_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new", "--name", name]) == 2
    out, err = capsys.readouterr()
    assert (out, "--name must not be empty" in err) == ("", True)


@pytest.mark.parametrize("argv", [["keys"], ["keys", "old"], ["keys", "new", "web"]])
def test_wrong_usage_exits_with_2(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
