"""`windlass aistudio`: signing in manually, and finding changes of the page."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.browsing import CHROMIUM, IN_ONE_BROWSER, Chromium, LentPages

from windlass.cli import aistudio, main
from windlass.cli.aistudio import diagnose, sign_in
from windlass.errors import ModelError
from windlass.models.aistudio.config import BrowserConfig
from windlass.models.aistudio.doctor import Finding
from windlass.models.aistudio.selectors import ELEMENTS, selectors_of
from windlass.testing import Gate, call
from windlass.testing.aistudio import Changes, FakeAIStudio, model_error

AS_A_MODEL = pytest.mark.whole("test_aistudio_faults, test_aistudio_variants")
"""The model raises the same errors in every run; here the doctor shows them too."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FC_UI_TIMEOUT_MS", "1500")


async def found(chromium: Chromium, fake: FakeAIStudio, *, ask: bool = False) -> dict[str, Any]:
    config = BrowserConfig(fake.url, Path("unused"), None)
    findings = await diagnose(LentPages(chromium), config, ask=ask)
    return {finding.element: finding for finding in findings}


@IN_ONE_BROWSER
async def test_every_part_of_a_known_page_is_found(chromium: Chromium) -> None:
    with FakeAIStudio([call("ping")]) as fake:
        findings = await found(chromium, fake, ask=True)
        assert findings.keys() == {*ELEMENTS, "probe"}
        states = {name: finding.state for name, finding in findings.items()}
        assert not {"missing", "failed"} & set(states.values())
        assert (states["edit_button"], states["dialog"], states["call"]) == ("ok", "ok", "ok")
        assert (states["probe"], fake.saves[0][0]["name"]) == ("ok", "ping")


@IN_ONE_BROWSER
async def test_the_probe_checks_the_arguments_that_it_asked_for(chromium: Chromium) -> None:
    def obey(body: dict[str, Any]) -> Any:
        return call("ping", text=body["prompt"].rpartition(" ")[2].rstrip("."))

    with FakeAIStudio(obey) as fake:
        probe = (await found(chromium, fake, ask=True))["probe"]
        assert (probe.state, probe.detail) == ("ok", "read a call of ping with its arguments")


@IN_ONE_BROWSER
@pytest.mark.parametrize(
    ("script", "options", "said"),
    [
        ([call("ping")], {"broken": {"call_arguments"}, "changes": Changes(call="table")}, "argu"),
        ([call("ping", text="x")], {"changes": Changes(call="labelled")}, "'Function call: ping'"),
        (["I would rather talk."], {}, "expected one call of ping, read a text"),
        pytest.param([model_error("It broke.")], {}, "It broke.", marks=AS_A_MODEL),
        pytest.param(
            [call("ping")],
            {"changes": Changes(run_button="same")},
            "never showed",
            marks=AS_A_MODEL,
        ),
    ],
)
async def test_a_call_that_cannot_be_read_fails_the_probe(
    chromium: Chromium, script: Any, options: Any, said: str
) -> None:
    with FakeAIStudio(script, **options) as fake:
        probe = (await found(chromium, fake, ask=True))["probe"]
        assert probe.state == "failed"
        assert said in probe.detail


@IN_ONE_BROWSER
async def test_the_doctor_waits_until_the_page_is_ready(chromium: Chromium) -> None:
    gate = Gate()
    with FakeAIStudio([call("ping")], late={"page": gate}) as fake:
        looking = asyncio.create_task(found(chromium, fake, ask=True))
        await gate.reached.wait()
        gate.open()
        findings = await looking
        assert not any(finding.is_problem for finding in findings.values())


@IN_ONE_BROWSER
@pytest.mark.parametrize("variant", ["older", "newer"])
async def test_the_fallback_that_matched_is_named(chromium: Chromium, variant: Any) -> None:
    with FakeAIStudio([], variant=variant) as fake:
        findings = await found(chromium, fake)
        assert "missing" not in {finding.state for finding in findings.values()}
        assert (fake.saves, fake.requests) == ([], [])  # the page is left as it was
        if variant == "older":
            toggle = findings["function_toggle"]
            assert toggle.state == "fallback"
            assert toggle.selector in selectors_of("function_toggle")[1:]


@IN_ONE_BROWSER
@pytest.mark.parametrize(
    "parts",
    [
        {"edit_button"},  # without it, the editor is not visible
        {"prompt", "run_button", "new_chat", "tools_panel", "save_button"},
    ],
)
async def test_a_missing_part_is_named(chromium: Chromium, parts: set[str]) -> None:
    with FakeAIStudio([], broken=parts) as fake:
        findings = await found(chromium, fake)
        missing = {name for name, finding in findings.items() if finding.state == "missing"}
        assert missing == parts
        assert any(finding.is_problem for finding in findings.values())


@IN_ONE_BROWSER
async def test_the_doctor_cannot_look_behind_the_sign_in(chromium: Chromium) -> None:
    with FakeAIStudio([], signed_in=False) as fake, pytest.raises(ModelError, match="login"):
        await found(chromium, fake)


@IN_ONE_BROWSER
async def test_login_ends_when_the_page_is_there(
    chromium: Chromium, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeAIStudio([]) as fake:
        assert await sign_in(LentPages(chromium), fake.url) == 0
    assert "Signed in" in capsys.readouterr().err


@IN_ONE_BROWSER
async def test_a_window_that_is_closed_too_early_is_not_a_login(
    chromium: Chromium, capsys: pytest.CaptureFixture[str]
) -> None:
    class ClosedByHand(LentPages):
        async def new_page(self) -> Any:
            page = await super().new_page()
            page.on("domcontentloaded", lambda page: page.close())
            return page

    with FakeAIStudio([], signed_in=False) as fake:
        assert await sign_in(ClosedByHand(chromium), fake.url) == 1
    assert "closed before" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("findings", "code", "said"),
    [
        ([Finding("prompt", "ok", "textarea")], 0, "Windlass can read the page"),
        ([Finding("prompt", "missing")], 1, "Missing: prompt."),
        ([Finding("probe", "failed", detail="no call")], 1, "Failed: probe: no call"),
    ],
)
def test_the_conclusion_says_what_is_missing(
    findings: list[Finding],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    async def found_before(*_: object, **__: object) -> list[Finding]:
        return findings

    monkeypatch.setattr(aistudio, "diagnose", found_before)
    assert main(["aistudio", "doctor"]) == code
    assert said in capfdbinary.readouterr().out.decode()


@pytest.mark.process
@pytest.mark.whole("tests/cli/test_every_command.py, with chromium-headless-shell")
def test_the_command_starts_chromium_with_its_own_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setenv("WINDLASS_AISTUDIO_BROWSER", str(CHROMIUM))
    monkeypatch.setenv("WINDLASS_AISTUDIO_PROFILE", str(tmp_path / "profile"))
    with FakeAIStudio([], broken={"edit_button"}) as fake:
        assert main(["aistudio", "doctor", "--url", fake.url, "--json"]) == 1
    findings = json.loads(capfdbinary.readouterr().out)
    missing = [each["element"] for each in findings if each["state"] == "missing"]
    assert missing == ["edit_button"]
    assert (tmp_path / "profile").stat().st_mode & 0o077 == 0
