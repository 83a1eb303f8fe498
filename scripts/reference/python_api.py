"""Writes the pages about the Python interface, from signatures and docstrings."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from scripts.reference.markdown import code, page, sentence, table

import windlass

GROUPS = {
    "Clients": "AsyncChat",
    "Tools": "Approval",
    "Parser": "Parsed",
    "Content": "FileData",
    "Models": "Model",
}
"""The groups of `windlass.__all__` on the page about the interface, with their first name."""
ELSEWHERE = {"ApprovalRequested": "Events", "BudgetExceeded": "Errors"}
"""The groups that have their own pages."""
HIDDEN_BASES = {"Struct", "Protocol", "Generic", "NamedTuple", "TypedDict", "ABC"}
HIDDEN_METHODS = {"answer", "launch", "store_added"}
"""Methods of `AsyncClient` that only its chats call."""
SHARED_BASE = "Part"
"""A public class whose methods are not repeated for its subclasses."""
OF_EVERY_EVENT = ("seq", "time", "type", "done")
WIDTH = 88


@cache
def package() -> Any:
    """Returns the package as griffe reads it, without importing it."""
    griffe = import_module("griffe")  # belongs to the group `docs`
    return griffe.load("windlass", search_paths=["src"])


def public_groups() -> dict[str, list[str]]:
    """Returns the public names by group, in the order of `windlass.__all__`."""
    titles = {first: title for title, first in GROUPS.items()} | ELSEWHERE
    groups: dict[str, list[str]] = {}
    title = ""
    for name in windlass.__all__:
        title = titles.get(name, title)
        groups.setdefault(title, []).append(name)
    return groups


def _target(name: str) -> Any:
    """The definition of a public name. `windlass.tool` is also a package, so its import counts."""
    found = package()[package().imports[name].removeprefix("windlass.")]
    return found.final_target if found.is_alias else found


def _docstring(found: Any) -> str:
    return found.docstring.value.strip() if found.docstring else ""


def _annotation(value: Any) -> str:
    return re.sub(r"[\"']", "", str(value)) if value is not None else ""


def signature(name: str, function: Any, *, of_class: bool = False) -> str:
    """`name(a: int, *, b: str = "x") -> Reply`, broken over lines when it is long."""
    words: list[str] = []
    star = slash = False
    for parameter in function.parameters:
        if of_class and parameter.name in ("self", "cls"):
            continue
        kind = parameter.kind.value if parameter.kind else ""
        if kind == "variadic positional":
            star = True
        if kind == "positional-only":
            slash = True
        elif slash:
            words.append("/")
            slash = False
        if kind == "keyword-only" and not star:
            words.append("*")
            star = True
        prefix = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        text = prefix + parameter.name
        if parameter.annotation is not None:
            text += f": {_annotation(parameter.annotation)}"
        if parameter.default is not None and not prefix:
            text += f" = {parameter.default}" if parameter.annotation else f"={parameter.default}"
        words.append(text)
    returns = _annotation(function.returns)
    arrow = f" -> {returns}" if returns else ""
    line = f"{name}({', '.join(words)}){arrow}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f"){arrow}"


def _members(found: Any) -> Iterator[tuple[str, Any]]:
    """Returns the public members of a class and of its bases in the package."""
    seen: set[str] = set()
    for owner in [found, *_bases(found)]:
        for name, member in owner.members.items():
            if not name.startswith("_") and name not in seen and not member.is_alias:
                seen.add(name)
                yield name, member


def _bases(found: Any) -> list[Any]:
    bases: list[Any] = []
    for base in found.bases:
        path = getattr(base, "canonical_path", str(base))
        if path.startswith("windlass.") and path.rpartition(".")[2] not in HIDDEN_BASES:
            try:
                owner = package()[path.removeprefix("windlass.")]
            except KeyError:
                continue
            owner = owner.final_target if owner.is_alias else owner
            bases += [owner, *_bases(owner)]
    return bases


def _fields(found: Any) -> list[tuple[str, str, str, str]]:
    rows: list[tuple[str, str, str, str]] = []
    for name, member in _members(found):
        if member.kind.value == "attribute" and "property" not in member.labels:
            kind = _annotation(member.annotation)
            is_default = member.value is not None and "class-attribute" in member.labels
            default = str(member.value) if is_default else ""
            rows.append((name, kind, default, _docstring(member)))
    return rows


def _field_table(found: Any, *, skip: Iterable[str] = ()) -> str:
    rows = [
        (f"`{name}`", f"`{kind}`" if kind else "", f"`{default}`" if default else "", text)
        for name, kind, default, text in _fields(found)
        if name not in skip and "ClassVar" not in kind
    ]
    return _without_empty_columns(("Field", "Type", "Default", "Meaning"), rows)


def _without_empty_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table without its empty columns, or nothing if there are no rows."""
    if not rows:
        return ""
    columns = [n for n in range(len(head)) if n == 0 or any(row[n] for row in rows)]
    return table([head[n] for n in columns], ([row[n] for n in columns] for row in rows))


def _property_table(found: Any) -> str:
    rows = [
        (f"`{name}`", f"`{_annotation(member.annotation)}`", _docstring(member))
        for name, member in _members(found)
        if member.kind.value == "attribute" and "property" in member.labels
    ]
    return _without_empty_columns(("Property", "Type", "Meaning"), rows)


def _methods(found: Any) -> Iterator[str]:
    base = next((base for base in _bases(found) if base.name == SHARED_BASE), None)
    if base is not None:
        yield f"A subclass of [`{SHARED_BASE}`](#{SHARED_BASE.lower()}), with its methods.\n"
    for name, member in _members(found):
        if member.kind.value != "function" or name in HIDDEN_METHODS:
            continue
        if base is not None and member.parent is base:
            continue
        prefix = "async " if "async" in member.labels else ""
        yield f"#### `{found.name}.{name}`\n"
        yield code(prefix + signature(name, member, of_class=True))
        yield _docstring(member) + "\n"


def _class(name: str, found: Any) -> Iterator[str]:
    yield f"### `{name}`\n"
    made = found.members.get("__init__")
    if made is not None and not made.is_alias:
        yield code(signature(name, made, of_class=True).removesuffix(" -> None"))
    yield _docstring(found) + "\n"
    if made is not None and made.docstring:
        yield _docstring(made) + "\n"
    yield _field_table(found)
    yield _property_table(found)
    yield from _methods(found)


def _entry(name: str) -> Iterator[str]:
    found = _target(name)
    match found.kind.value:
        case "class":
            yield from _class(name, found)
        case "function":
            yield f"### `{name}`\n"
            yield code(signature(name, found))
            yield _docstring(found) + "\n"
        case _:
            yield f"### `{name}`\n"
            if found.value is not None:
                kind = f": {_annotation(found.annotation)}" if found.annotation else ""
                yield code(f"{name}{kind} = {found.value}")
            yield _docstring(found) + "\n"


def _most_used_first(names: Iterable[str]) -> list[str]:
    """Sorts `Client` and `AsyncClient` before everything else."""
    first = {"Client": 0, "AsyncClient": 1, "Reply": 2}
    return sorted(
        names,
        key=lambda name: (first.get(name, 3), name.removeprefix("Async"), name.startswith("Async")),
    )


def api_page() -> str:
    parts = [
        (
            "All of these names are in the package `windlass`. [Events](events.md), "
            "[errors](errors.md) and [the options of a run](options.md) have their own pages.\n"
        )
    ]
    for title, names in public_groups().items():
        if title not in GROUPS:
            continue
        parts.append(f"## {title}\n")
        for name in _most_used_first(names) if title == "Clients" else names:
            parts += _entry(name)
    return page("Python API", *parts)


def _literal(name: str) -> list[tuple[str, str]]:
    """Returns the values of a `Literal` and the comments after them."""
    lines = package()[f"events.{name}"].lines
    made = filter(None, (re.match(r'\s+"(\w+)",\s*(?:#\s*(.*))?$', line) for line in lines))
    return [(f"`{each[1]}`", sentence(each[2] or "")) for each in made]


def events_page() -> str:
    names = [name for name in public_groups()["Events"] if name != "RunEvent"]
    kinds: dict[str, str] = {}
    parts: list[str] = []
    for name in names:
        found = _target(name)
        tag = getattr(windlass, name).__struct_config__.tag
        kinds[name] = getattr(windlass, name).type
        parts += [f"## `{name}`\n", f"`event` is `{tag}`, `type` is `{kinds[name]}`.\n"]
        parts += [_docstring(found) + "\n", _field_table(found, skip=OF_EVERY_EVENT)]
    head = [
        (
            "A run is a numbered list of events. `client.stream`, `client.subscribe` and "
            "`GET /v1/runs/{id}/events` yield them in order. [Streaming](../streaming.md) "
            "shows how to "
            "use them.\n"
        ),
        (
            "Every event has `seq`, its number in the run, `time` in Unix seconds, "
            "`type`, and `done`, "
            "which is true only for `RunEnded`. Over HTTP the field `event` has its name.\n"
        ),
        table(
            ("Event", "`type`", "Meaning"),
            (
                (
                    f"[`{name}`](#{name.lower()})",
                    f"`{kinds[name]}`",
                    _docstring(_target(name)).split("\n\n")[0],
                )
                for name in names
            ),
        ),
        "\n## Values of `type`\n",
        table(("Value", "Meaning"), _literal("EventType")),
        "\n## Values of `RunEnded.reason`\n",
        table(("Value", "Meaning"), _literal("StopReason")),
        "\n## Values of `ToolRunEnded.outcome`\n",
        table(("Value", "Meaning"), _literal("Outcome")),
        "",
    ]
    return page("Events", *head, *parts)


def errors_page() -> str:
    import windlass.errors

    tree = (windlass.errors.__doc__ or "").split("\n\n")[1]
    parts = [
        "Every error that Windlass raises is a `WindlassError`.\n",
        code(tree, "text"),
        (
            "Any other exception of a tool is not raised: it is logged, and the model "
            "gets an error "
            "result. See [errors of tools](../execution.md#errors).\n"
        ),
    ]
    for name in public_groups()["Errors"]:
        found = _target(name)
        bases = [str(base) for base in found.bases]
        parts.append(f"## `{name}`\n")
        made = found.members.get("__init__")
        if made is not None:
            parts.append(code(signature(name, made, of_class=True).removesuffix(" -> None")))
        if bases:
            parts.append(f"A subclass of {' and '.join(f'`{base}`' for base in bases)}.\n")
        parts.append(_docstring(found) + "\n")
        if made is not None and made.docstring:
            parts.append(_docstring(made) + "\n")
    return page("Errors", *parts)


def options_page() -> str:
    """`RunOptions` and `ClientOptions`, with the docstrings of the policy and the settings."""
    known: dict[str, tuple[str, str]] = {}
    for path in ("loop.policy.Policy", "model.Settings"):
        for name, _, default, text in _fields(package()[path]):
            known[name] = (default, text)

    def rows(path: str, *, leave_out: Iterable[str] = ()) -> Iterator[tuple[str, str, str]]:
        for name, kind, _, text in _fields(package()[path]):
            if name in leave_out:
                continue
            default, meaning = known.get(name, ("", ""))
            shown = text or meaning
            yield (
                f"`{name}`",
                f"`{kind}`",
                (f"{shown} " if shown else "") + (f"Default: `{default}`." if default else ""),
            )

    run = [name for name, *_ in _fields(package()["client.options.RunOptions"])]
    head = ("Option", "Type", "Meaning")
    return page(
        "Options of a run",
        "`generate`, `stream`, `start` and `chat` take these options. A client takes them too: "
        "they are the defaults of its runs. [The loop](../loop.md) explains them.\n",
        table(head, rows("client.options.RunOptions")),
        "\n## Arguments of one call\n",
        "`generate`, `stream` and `start` also take:\n",
        table(head, rows("client.request.CallOptions", leave_out=run)),
        "\n## Options of a client\n",
        "`Client` and `AsyncClient` also take:\n",
        table(head, rows("client.options.ClientOptions", leave_out=run)),
    )


def testing_page() -> str:
    import windlass.testing

    found = package()["testing"]
    parts = [_docstring(found) + "\n", "[Testing](../testing.md) has examples.\n"]
    for name in windlass.testing.__all__:
        target = found[name]
        target = target.final_target if target.is_alias else target
        match target.kind.value:
            case "class":
                parts += [each.replace("### ", "## ", 1) for each in _class(name, target)]
            case "function":
                parts += [f"## `{name}`\n", code(signature(name, target)), _docstring(target)]
            case _:
                parts += [f"## `{name}`\n", _docstring(target)]
        parts.append("")
    return page("windlass.testing", *parts)
