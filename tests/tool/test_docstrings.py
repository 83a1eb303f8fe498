"""Docstrings: a description without the sections, a sentence for each parameter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.tool.docstrings import parse_docstring

GOOGLE = """Current weather.

    Asks a service: slow.

    Args:
        city (str, optional): The city's name,
            in English.
        unit: One of: c, f.
        **options: Anything else.

    Returns:
        dict: The weather.

    Raises:
        ValueError: For a bad city.

    Note:
        Rain is not included.
    """

NUMPY = """Current weather.

    Asks a service: slow.

    Parameters
    ----------
    city : str, optional
        The city's name,
        in English.
    unit : {'c', 'f'}
        One of: c, f.
    **options
        Anything else.

    Returns
    -------
    dict
        The weather.

    Raises
    ------
    ValueError
        For a bad city.

    Note
    ----
    Rain is not included.
    """

SPHINX = """Current weather.

    Asks a service: slow.

    :param str city: The city's name,
        in English.
    :param unit: One of: c, f.
    :type unit: str
    :param options: Anything else.
    :returns: The weather.
    :rtype: dict
    :raises ValueError: For a bad city.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_each_style_gives_the_same_parameters(text: str):
    assert parse_docstring(text).parameters == {
        "city": "The city's name, in English.",
        "unit": "One of: c, f.",
        "options": "Anything else.",
    }


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_the_description_keeps_the_body_and_drops_parameters_results_and_errors(text: str):
    description = parse_docstring(text).description
    assert description.startswith("Current weather.\n\nAsks a service: slow.")
    for word in (
        "city",
        "Args",
        "Parameters",
        "Returns",
        "The weather",
        "ValueError",
        "----\ndict",
    ):
        assert word not in description


@pytest.mark.parametrize("text", [GOOGLE, NUMPY], ids=["google", "numpy"])
def test_notes_stay_in_the_description(text: str):
    assert parse_docstring(text).description.endswith("Rain is not included.")


def test_several_numpy_names_share_their_sentence():
    text = "Adds.\n\nParameters\n----------\na, b : int\n    A number."
    assert parse_docstring(text).parameters == {"a": "A number.", "b": "A number."}


def test_a_word_like_a_section_in_running_text_is_text():
    text = "Says what the function returns: a number.\nReturns: are rare."
    assert parse_docstring(text).description == text


def test_text_after_a_section_belongs_to_the_description():
    text = "Adds.\n\nArgs:\n    a: A number.\n\nIt is fast."
    assert parse_docstring(text).description == "Adds.\n\nIt is fast."


def test_a_missing_docstring_has_no_description():
    assert parse_docstring(None) == parse_docstring("") == ("", {})


@given(st.text())
def test_no_text_breaks_the_parser(text: str):
    parse_docstring(text)
