"""`Changes`: how a replica of the page differs from the page that is known. Pure."""

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

_STATIC = Path(__file__).parent / "static"
_INLINE = frozenset({"ms-cmark-node", "mat-panel-title", "mat-slide-toggle", "mat-chip"})


class Changes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Differences in markup, language and behaviour. The defaults are the known page.

    `tags`: whether components keep their names, have other names, or are plain `div` and `span`
    elements; `kept` are the components that keep theirs. `classes`: the same, or none at all.
    `dropped`: attributes that the page does not have. `words`: labels in another language.
    `shadowed`: components with a shadow root. `turn_ids`: whether turns have ids, none, or new ones
    whenever they are drawn again. `redraw`: when all turns are drawn again. `virtual`: what happens
    to turns that are not on the screen. `hydration`: the seconds in which the page only looks
    ready. `surprise`: a survey after each answer, a bar over the prompt, or one that asks for an
    agreement. `run_button`: how the button shows that the model writes; "same" means not at all.
    `switch`, `prompt`, `editor`: the kinds of these fields. `call`: how the widget of a call shows
    it. `roles`: whether turns have ARIA roles. `order`: where new turns are added. `new_chat`:
    whether the page is loaded again. `mirror`: whether there is a hidden copy of the chat. `notes`:
    words that are no part of the answer: for screen readers, beside the answer, or in it.
    """

    seed: int = 0
    tags: Literal["known", "renamed", "plain"] = "known"
    kept: tuple[str, ...] = ()
    classes: Literal["known", "renamed", "none"] = "known"
    dropped: tuple[str, ...] = ()
    words: dict[str, str] = {}
    shadow: Literal["none", "open", "closed"] = "none"
    shadowed: tuple[str, ...] = ()
    turn_ids: Literal["kept", "none", "new"] = "kept"
    redraw: Literal["never", "each", "end", "typing"] = "never"
    virtual: Literal["emptied", "removed"] = "emptied"
    hydration: float = 0.0
    surprise: Literal["none", "survey", "banner", "consent"] = "none"
    run_button: Literal["known", "icon", "separate", "busy", "same"] = "known"
    switch: Literal["aria", "checkbox", "pressed", "none"] = "aria"
    prompt: Literal["textarea", "editable"] = "textarea"
    editor: Literal["textarea", "editable"] = "textarea"
    call: Literal["known", "pretty", "labelled", "collapsed", "table"] = "known"
    roles: bool = False
    order: Literal["down", "up"] = "down"
    new_chat: Literal["stays", "reloads"] = "stays"
    mirror: bool = False
    notes: Literal["none", "hidden", "beside", "inside"] = "none"

    def to_dict(self) -> dict[str, Any]:
        """The changes as the page's JavaScript reads them."""
        plain = {name: getattr(self, name) for name in self.__struct_fields__}
        return {**plain, "tags": self._tags(), "classes": self._classes()}

    def renamed_in(self, style: str) -> str:
        """The page's style sheet, with the names of this page."""
        # Rules for components would apply to every `div`.
        for old, new in self._tags().items() if self.tags == "renamed" else ():
            style = re.sub(rf"(?<![\w.-]){old}(?![\w-])", new, style)
        for old, new in self._classes().items():
            if new:
                style = re.sub(rf"\.{old}(?![\w-])", f".{new}", style)
        return style

    def _tags(self) -> dict[str, str]:
        if self.tags == "known":
            return {}
        names = [name for name in known_names()[0] if name not in self.kept]
        if self.tags == "plain":
            return {name: "span" if name in _INLINE else "div" for name in names}
        return {name: f"x-{self._code(name)}" for name in names}

    def _classes(self) -> dict[str, str]:
        if self.classes == "known":
            return {}
        # What a page would call its icons belongs to the library that draws them.
        names = [name for name in known_names()[1] if name not in self.kept]
        return {name: "" if self.classes == "none" else f"c{self._code(name)}" for name in names}

    def _code(self, name: str) -> str:
        return hashlib.sha256(f"{self.seed} {name}".encode()).hexdigest()[:6]


@cache
def known_names() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The components and the classes of the known page."""
    code = "".join(path.read_text("utf-8") for path in sorted(_STATIC.glob("*.js")))
    tags = set(re.findall(r'"((?:ms|mat)-[a-z-]+)"', code)) - {"ms-"}
    lists = re.findall(r'class: [`"]([^`"$]+)', code)
    classes = {name for names in lists for name in names.split()}
    classes |= {"user", "model", "error", "warning", "toast", "mdc-switch", "chat-turn-container"}
    return tuple(sorted(tags)), tuple(sorted(classes))
