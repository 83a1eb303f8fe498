"""The generated reference pages have everything that the code has. `make docs` writes them."""

import importlib.util

import pytest
from scripts.reference import environment, http_api, python_api, toml_keys, wire_types
from scripts.reference.__main__ import PAGES

import windlass
from windlass.gateway.config import values
from windlass.gateway.routes.openapi import FAMILIES, openapi_document

pytestmark = pytest.mark.sweep

WITH_GRIFFE = importlib.util.find_spec("griffe") is not None


def test_every_environment_variable_is_explained() -> None:
    """A new one belongs into `OWN` or `OTHERS` of scripts/reference/environment.py."""
    used, explained = environment.in_code(), environment.explained()
    assert used - explained == set()
    assert explained - used == set()


def test_every_section_of_the_configuration_is_on_its_page() -> None:
    assert set(toml_keys.SECTIONS) == set(values.ConfigFile.__struct_fields__)


def test_every_family_of_endpoints_has_a_title() -> None:
    assert set(http_api.TITLES) == {family.__name__.rpartition(".")[2] for family in FAMILIES}


def test_every_type_of_the_http_api_is_on_its_page_once() -> None:
    whole = openapi_document()
    shown = [name for names in wire_types.by_wire(whole).values() for name in names]
    assert sorted(shown) == sorted(set(shown))
    assert set(shown) == set(whole["components"]["schemas"])


def test_every_public_name_belongs_to_a_page() -> None:
    groups = python_api.public_groups()
    assert set(groups) == {*python_api.GROUPS, *python_api.ELSEWHERE.values()}
    assert [name for names in groups.values() for name in names] == windlass.__all__


@pytest.mark.process
@pytest.mark.skipif(not WITH_GRIFFE, reason="`make docs` installs griffe and runs this")
def test_the_pages_have_signatures_docstrings_and_fields() -> None:
    api = python_api.api_page()
    for name in windlass.__all__:
        page = "### `" if name not in python_api.public_groups()["Events"] else None
        if page and name not in python_api.public_groups()["Errors"]:
            assert f"### `{name}`" in api
    assert "max_running: int = 100" in api
    events = PAGES["events"]()
    assert "`event` is `text_delta`, `type` is `content`" in events
    assert "| `signature` |" in events
    assert "| `max_rounds` |" in PAGES["options"]()
    assert "## `windlass serve`" in PAGES["cli"]()
    assert "| `max_cost_per_month` | none | a number above 0 |" in PAGES["windlass-toml"]()
    assert "### `POST /v1/chat/completions`" in PAGES["http"]()
    errors = PAGES["errors"]()
    assert all(f"## `{name}`" in errors for name in python_api.public_groups()["Errors"])
