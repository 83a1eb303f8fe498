"""Lists in a request, such as "Python and Java", of which a call must have one item each. Pure.

A small model may write one call for such a list: with the first item, or with all of them as one
text.
"""

import ast
import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from windlass.emulation.program import ProgramStep

_QUOTED = r"\"[^\"\n]{1,60}\"|(?<!\w)'[^'\n]{1,60}'"
_WORD = r"[A-Z][\w&-]+"
_NAME = rf"{_WORD}(?: (?:(?:of|the|de|la) )?{_WORD})*"
_AND = r"(?:and|&)(?: (?:in|from|for|of|to|at))?"
_LISTS = [
    (re.compile(item), re.compile(rf"(?:{item})(?:, (?:{item}))*,? {_AND} (?:{item})(?!\w)"))
    for item in (_QUOTED, _NAME)
]
_SEPARATOR = re.compile(r", | and | & |; ")
_TAKES_SEVERAL = re.compile(r"\b(?:list|names|separated)\b", re.IGNORECASE)


def one_for_each(
    step: ProgramStep, request: str, steps: Sequence[ProgramStep]
) -> list[ProgramStep]:
    """The call once for each item of a list in the request, if a required text of it is one of the
    items, or several, and no argument of the steps has the others."""
    if step.needs:
        return [step]
    texts = {
        name: value.value
        for name, value in step.arguments.items()
        if isinstance(value, ast.Constant)
        and isinstance(value.value, str)
        and name in step.function.required
        and not _takes_several(step, name)
    }
    said = " ".join(each for other in steps for each in other.literals)
    for items in _lists_in(request):
        for name, text in texts.items():
            parts = _SEPARATOR.split(text)
            others = [each for each in items if each != text]
            if text in items and not any(each in said for each in others):
                return [_with(step, name, each, number) for number, each in enumerate(items)]
            if len(parts) > 1 and set(parts) <= set(items) and text not in request:
                return [_with(step, name, each, number) for number, each in enumerate(parts)]
    return [step]


def _lists_in(request: str) -> Iterator[list[str]]:
    for item, whole in _LISTS:
        for found in whole.finditer(request):
            yield list(dict.fromkeys(each.strip("\"'") for each in item.findall(found[0])))


def _takes_several(step: ProgramStep, name: str) -> bool:
    """Whether the parameter takes several names in one text."""
    return bool(_TAKES_SEVERAL.search(str(step.function.schema(name).get("description") or "")))


def _with(step: ProgramStep, name: str, text: str, number: int) -> ProgramStep:
    """The step with another text. The first one keeps its variable."""
    arguments = {**step.arguments, name: ast.Constant(text)}
    variable = f"{step.variable}_{number + 1}" if number else step.variable
    identifiers = {own: each for each, own in step.function.parameters.items()}
    given = ", ".join(f"{identifiers[own]}={ast.unparse(each)}" for own, each in arguments.items())
    line = f"{variable} = {step.function.name}({given})"
    return replace(step, variable=variable, arguments=arguments, line=line)
