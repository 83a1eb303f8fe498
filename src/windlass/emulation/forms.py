"""The form that the description of a text asks for: dates, times and places. Pure.

A small model reads "in the format 'City, State'" and writes the city alone, because the request
has no more. If the grammar wants the rest, the model knows it.
"""

import re

_PLACE = re.compile(r"\bcity(?:,| and)(?: the)? (?:state|country)\b(?!,? or\b)", re.IGNORECASE)
_PLACE_EXAMPLE = re.compile(r"['\"(][A-Z][A-Za-z. ]+, (?!State|Country)([A-Z][A-Za-z. ]+)['\")]")
_COUNTRY = re.compile(r"\bcountry\b", re.IGNORECASE)
_PLACE_START = r'"\"" [^",\\\n]{1,80} ", "'
_PLACE_RULE = rf'{_PLACE_START} [^"\\\n]{{1,80}} "\""'
_CODE_RULE = rf'{_PLACE_START} [A-Z] [A-Z] "\""'
"""For descriptions with examples such as "New York, NY" and none such as "Paris, France"."""
_FIELD = r"(?:y{4}|m{2}|d{2}|h{2}|s{2})"
_DATE = re.compile(
    rf"(?<![a-z]){_FIELD}(?:[-/.:]{_FIELD}|[t ]h{{2}}){{1,5}}z?(?![-/.:]?[a-z])", re.IGNORECASE
)
_LETTERS = re.compile(r"[YMDHS]+")
_ISO_FORM = "YYYY-MM-DD"
_ISO_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")


def form_rule(description: str) -> str | None:
    """Returns the rule (GBNF) for texts in the form that the description asks for.

    None if it asks for no form that is known, or for one of several. A day may also be an ISO
    date, which `in_form` changes: a model that begins to write one would end in another date.
    """
    form = _date_form(description)
    if form is not None:
        forms = {form: None, _ISO_FORM: None} if _is_day(form) else {form: None}
        return " | ".join(map(_date_rule, forms))
    examples = _PLACE_EXAMPLE.findall(description)
    has_codes = any(map(_is_code, examples))
    if _DATE.search(description) or not (has_codes or _PLACE.search(description)):
        return None
    is_clear = len(examples) > 1 or not _COUNTRY.search(description)
    return _CODE_RULE if has_codes and is_clear and all(map(_is_code, examples)) else _PLACE_RULE


def in_form(text: str, description: str) -> str:
    """Returns an ISO date in the form that the description asks for, and other texts unchanged."""
    form, date = _date_form(description), _ISO_DATE.fullmatch(text)
    if form is None or date is None or not _is_day(form):
        return text
    year, month, day = date.groups()
    return form.replace("YYYY", year).replace("MM", month).replace("DD", day)


def _date_form(description: str) -> str | None:
    """The only form of a date or time that the description names, such as YYYY-MM-DD."""
    forms = {found[0].upper() for found in _DATE.finditer(description)}
    return forms.pop() if len(forms) == 1 else None


def _is_code(text: str) -> bool:
    return len(text) == 2 and text.isupper()


def _is_day(form: str) -> bool:
    return sorted(_LETTERS.findall(form)) == ["DD", "MM", "YYYY"]


def _date_rule(form: str) -> str:
    """The rule for a date: digits in place of the letters."""
    digits = _LETTERS.sub(lambda letters: f'" [0-9]{{{len(letters[0])}}} "', form)
    return rf'"\"{digits}\""'
