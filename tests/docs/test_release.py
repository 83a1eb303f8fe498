"""What `make release` relies on, without building anything."""

import re
import tomllib
from pathlib import Path

from scripts import release

import windlass

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_version_has_one_source() -> None:
    assert release.version() == windlass.__version__
    assert "version" in PROJECT["project"]["dynamic"]
    assert "version" not in PROJECT["project"]


def test_the_changelog_has_a_section_for_the_version_and_one_for_what_follows() -> None:
    headings = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", CHANGELOG, re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    assert windlass.__version__ in dict(headings[1:])
    for name, _ in headings:
        assert re.search(rf"^\[{re.escape(name)}\]: https://", CHANGELOG, re.MULTILINE)


def test_every_tested_python_is_a_classifier_or_newer() -> None:
    found = re.findall(r"Python :: (3\.\d+)'", str(PROJECT["project"]["classifiers"]))
    assert set(found) <= set(release.PYTHONS)


def test_every_extra_has_a_smoke_test() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert {*release.EXTRAS, release.WITH_WEIGHTS} == {"core", *extras}


def test_relative_links_of_a_description_are_found() -> None:
    text = '[a](docs/a.md) [b](https://b) <img src="c.png"> <source srcset="https://d"> [e](#e)'
    assert release.relative_links(text) == ["docs/a.md", "c.png"]


def test_an_audit_without_an_answer_is_not_a_clean_audit() -> None:
    clean = {"name": "a", "version": "1", "vulns": []}
    skipped = {"name": "b", "skip_reason": "Dependency not found on PyPI"}
    bad = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1"}]}
    assert release.audited([clean]).state == "ok"
    assert release.audited([clean, skipped]).state == "NOT RUN"
    assert release.audited([skipped, bad]) == ("FAILED", "c 2: PYSEC-1")


def test_the_verdict_names_the_steps_that_were_not_run() -> None:
    assert release.verdict({"build": "ok"}) == "ready to upload"
    assert release.verdict({"build": "ok", "audit": "NOT RUN"}) == "ready, but not run: audit"
    assert release.verdict({"audit": "NOT RUN", "build": "FAILED"}).startswith("NOT ready")


def test_the_address_of_the_project_is_the_same_everywhere() -> None:
    urls = PROJECT["project"]["urls"]
    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    assert site["site_url"] == urls["Documentation"]
    hook = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    replaced = " ".join(each["replacement"] for each in hook["substitutions"])
    assert urls["Documentation"] in replaced
    assert f"{urls['Source']}/blob/main/" in replaced
