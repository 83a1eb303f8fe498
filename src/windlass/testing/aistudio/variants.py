"""Generated variants of the AI Studio page: `variant_of(seed)`.

Every seed is a page that differs from the known one in one or several ways, always the same for the
same seed. `python -m windlass.testing.aistudio --seed N` tries one, see `trial`.
"""

import random
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from msgspec import Struct

from windlass.testing.aistudio.fake import Changes, PageOptions, known_names

LANGUAGES: dict[str, dict[str, str]] = {
    "de": {
        "Enter a prompt": "Prompt eingeben",
        "Start typing a prompt": "Geben Sie einen Prompt ein",
        "Run": "Ausführen",
        "Stop": "Anhalten",
        "Stop generating": "Anhalten",
        "New chat": "Neuer Chat",
        "Discard this chat?": "Diesen Chat verwerfen?",
        "Discard and continue": "Verwerfen und fortfahren",
        "Cancel": "Abbrechen",
        "Close": "Schließen",
        "Not now": "Nicht jetzt",
        "Tools": "Tools",
        "Expand or collapse tools": "Tools maximieren oder minimieren",
        "Function calling": "Funktionsaufrufe",
        "Google Search": "Google Suche",
        "Grounding with Google Search": "Fundierung mit der Google Suche",
        "Code execution": "Codeausführung",
        "URL context": "URL-Kontext",
        "Browse the url context": "URL-Kontext",
        "Edit function declarations": "Funktionsdeklarationen bearbeiten",
        "Function declarations": "Funktionsdeklarationen",
        "Code Editor": "Code-Editor",
        "Visual Editor": "Visueller Editor",
        "Save": "Speichern",
        "Save the current function declarations": "Aktuelle Funktionsdeklarationen speichern",
        "Reset": "Zurücksetzen",
        "Reset the function declarations": "Funktionsdeklarationen zurücksetzen",
        "Thoughts": "Gedanken",
        "Enter a function response": "Funktionsantwort eingeben",
        "Send": "Senden",
        "System instructions": "Systemanweisungen",
        "Temperature": "Temperatur",
        "User": "Nutzer",
        "Model": "Modell",
    },
    "fr": {
        "Enter a prompt": "Saisissez un prompt",
        "Start typing a prompt": "Commencez à écrire",
        "Run": "Exécuter",
        "Stop": "Arrêter",
        "Stop generating": "Arrêter la génération",
        "New chat": "Nouvelle discussion",
        "Discard and continue": "Supprimer et continuer",
        "Cancel": "Annuler",
        "Close": "Fermer",
        "Not now": "Pas maintenant",
        "Tools": "Outils",
        "Expand or collapse tools": "Développer ou réduire les outils",
        "Function calling": "Appel de fonction",
        "Google Search": "Recherche Google",
        "Grounding with Google Search": "Ancrage avec la recherche Google",
        "Code execution": "Exécution de code",
        "URL context": "Contexte d'URL",
        "Edit function declarations": "Modifier les déclarations de fonction",
        "Function declarations": "Déclarations de fonction",
        "Code Editor": "Éditeur de code",
        "Visual Editor": "Éditeur visuel",
        "Save": "Enregistrer",
        "Save the current function declarations": "Enregistrer les déclarations",
        "Reset": "Réinitialiser",
        "Reset the function declarations": "Réinitialiser les déclarations",
        "Thoughts": "Réflexions",
        "Enter a function response": "Saisissez une réponse de fonction",
        "Send": "Envoyer",
        "System instructions": "Instructions système",
        "User": "Utilisateur",
        "Model": "Modèle",
    },
    "ja": {
        "Enter a prompt": "プロンプトを入力",
        "Start typing a prompt": "プロンプトを入力してください",
        "Run": "実行",
        "Stop": "停止",
        "Stop generating": "生成を停止",
        "New chat": "新しいチャット",
        "Discard and continue": "破棄して続行",
        "Cancel": "キャンセル",
        "Close": "閉じる",
        "Tools": "ツール",
        "Expand or collapse tools": "ツールの展開または折りたたみ",
        "Function calling": "関数呼び出し",
        "Google Search": "Google 検索",
        "Grounding with Google Search": "Google 検索によるグラウンディング",
        "Code execution": "コードの実行",
        "Edit function declarations": "関数宣言を編集",
        "Function declarations": "関数宣言",
        "Code Editor": "コードエディタ",
        "Visual Editor": "ビジュアルエディタ",
        "Save": "保存",
        "Save the current function declarations": "現在の関数宣言を保存",
        "Reset": "リセット",
        "Reset the function declarations": "関数宣言をリセット",
        "Thoughts": "思考",
        "Send": "送信",
        "User": "ユーザー",
        "Model": "モデル",
    },
    # Other English words than those that the page is known to have.
    "en-other": {
        "Enter a prompt": "Ask anything",
        "Start typing a prompt": "What is on your mind?",
        "Run": "Go",
        "Stop": "Halt",
        "Stop generating": "Halt",
        "New chat": "Start over",
        "Discard and continue": "Yes, start over",
        "Close": "Hide",
        "Tools": "Extras",
        "Expand or collapse tools": "More or fewer extras",
        "Function calling": "Custom functions",
        "Edit function declarations": "Change the functions",
        "Function declarations": "Your functions",
        "Code Editor": "Source",
        "Visual Editor": "Form",
        "Save": "Keep",
        "Save the current function declarations": "Keep these functions",
        "Reset": "Start again",
        "Reset the function declarations": "Start again",
        "Thoughts": "Behind the scenes",
        "Enter a function response": "What did it return?",
        "Send": "Reply",
    },
}
LANGUAGES["xx"] = {
    label: "".join(f"{letter}\u0301" for letter in label) for label in LANGUAGES["de"]
}
"""A language that no table knows."""

_SHADOW = (
    *("ms-prompt-box", "ms-autosize-textarea", "ms-run-button", "ms-run-settings", "ms-text-chunk"),
    *("ms-edit-function-declarations-dialog", "ms-text-editor", "mat-slide-toggle"),
    *("ms-function-call-chunk", "ms-thought-chunk", "ms-toolbar"),
)
_LABELS = ("aria-label", "placeholder", "title")

Made: TypeAlias = dict[str, Any]


class PageVariant(Struct, frozen=True):
    """A variant: its seed, the names of its traits, and the options of `FakeAIStudio`."""

    seed: int
    traits: tuple[str, ...]
    options: PageOptions

    @property
    def name(self) -> str:
        return f"{self.seed}: {', '.join(self.traits)}"


def _language(rng: random.Random) -> tuple[str, Made]:
    name = rng.choice(list(LANGUAGES))
    return f"language {name}", {"words": LANGUAGES[name]}


def _some_tags(rng: random.Random) -> tuple[str, Made]:
    tags = known_names()[0]
    kept = tuple(sorted(rng.sample(tags, rng.randint(0, len(tags) - 1))))
    return f"{len(tags) - len(kept)} tags renamed", {"tags": "renamed", "kept": kept}


def _some_classes(rng: random.Random) -> tuple[str, Made]:
    classes = known_names()[1]
    kept = tuple(sorted(rng.sample(classes, rng.randint(0, len(classes) - 1))))
    return f"{len(classes) - len(kept)} classes renamed", {"classes": "renamed", "kept": kept}


def _attributes(rng: random.Random) -> tuple[str, Made]:
    names = ("data-test-id", "data-turn-role", "aria-label", "placeholder", "icon")
    dropped = tuple(sorted(rng.sample(names, rng.randint(1, 3))))
    return f"without {' '.join(dropped)}", {"dropped": dropped}


def _aria_only(_: random.Random) -> tuple[str, Made]:
    dropped = ("data-test-id", "data-turn-role", "icon")
    return "ARIA only", {"tags": "plain", "classes": "none", "dropped": dropped, "roles": True}


def _shadow(rng: random.Random) -> tuple[str, Made]:
    hosts = tuple(sorted(rng.sample(_SHADOW, rng.randint(1, len(_SHADOW)))))
    return f"{len(hosts)} shadow roots", {"shadow": "open", "shadowed": hosts}


def _closed(rng: random.Random) -> tuple[str, Made]:
    hosts = tuple(sorted(rng.sample(_SHADOW, rng.randint(1, 3))))
    return f"closed shadow roots in {' '.join(hosts)}", {"shadow": "closed", "shadowed": hosts}


def _redraw(rng: random.Random) -> tuple[str, Made]:
    when = rng.choice(("each", "end", "typing"))
    ids = rng.choice(("kept", "none", "new"))
    return f"turns drawn again ({when}), ids {ids}", {"redraw": when, "turn_ids": ids}


def _virtual(rng: random.Random) -> tuple[str, Made]:
    count, how = rng.choice((1, 2, 3)), rng.choice(("emptied", "removed"))
    return f"{count} visible turns, others {how}", {"virtual": how, "visible_turns": count}


def _hydration(rng: random.Random) -> tuple[str, Made]:
    seconds = round(rng.uniform(0.1, 0.9), 1)
    return f"works after {seconds} s", {"hydration": seconds}


def _one_of(option: str, *values: str) -> Callable[[random.Random], tuple[str, Made]]:
    def chosen(rng: random.Random) -> tuple[str, Made]:
        value = rng.choice(values)
        return f"{option} {value}", {option: value}

    return chosen


def _mirror(_: random.Random) -> tuple[str, Made]:
    return "hidden copy of the chat", {"mirror": True}


def _on_top(rng: random.Random) -> tuple[str, Made]:
    value = rng.choice(("survey", "banner", "consent", "closable", "stuck"))
    if value in ("closable", "stuck"):
        return f"{value} dialog on top", {"overlay": value}
    return f"{value} on top", {"surprise": value}


def _known_options(rng: random.Random) -> tuple[str, Made]:
    options: Made = {
        "variant": rng.choice(("current", "older", "newer")),
        "tools_collapsed": rng.random() < 0.5,
        "visual_tab_first": rng.random() < 0.5,
        "answered": rng.choice(("disabled", "kept")),
        "new_chat_resets": rng.random() < 0.5,
        "token_counts": rng.random() < 0.5,
    }
    return f"{options['variant']} page", options


TRAITS: tuple[Callable[[random.Random], tuple[str, Made]], ...] = (
    _language,
    _some_tags,
    _some_classes,
    _attributes,
    _aria_only,
    _shadow,
    _closed,
    _redraw,
    _virtual,
    _hydration,
    _on_top,
    _known_options,
    _one_of("run_button", "icon", "separate", "busy", "same"),
    _one_of("switch", "checkbox", "pressed", "none"),
    _one_of("prompt", "editable"),
    _one_of("editor", "editable"),
    _one_of("call", "pretty", "labelled", "collapsed", "table"),
    _one_of("turn_ids", "none"),
    _one_of("order", "up"),
    _one_of("new_chat", "reloads"),
    _one_of("notes", "hidden", "beside", "inside"),
    _mirror,
)
"""What a variant is made of. The first seeds have one trait each, the others one to four."""

_PAGE = frozenset(PageOptions.__annotations__) - {"changes"}


def variant_of(seed: int) -> PageVariant:
    """The variant of this seed, always the same one."""
    rng = random.Random(seed)
    is_single = 0 <= seed < len(TRAITS)
    chosen = [TRAITS[seed]] if is_single else rng.sample(TRAITS, rng.randint(1, 4))
    traits: list[str] = []
    made: Made = {}
    for trait in chosen:
        name, options = trait(rng)
        traits.append(name)
        dropped = (*made.get("dropped", ()), *options.get("dropped", ()))
        made |= options
        made |= {"dropped": tuple(dict.fromkeys(dropped))} if dropped else {}
    page = {name: value for name, value in made.items() if name in _PAGE}
    changes = {name: value for name, value in made.items() if name not in _PAGE}
    # A copy of the page that reacts to nothing cannot have shadow roots.
    if changes.get("shadow"):
        changes.pop("hydration", None)
    options = cast("PageOptions", {**page, "changes": Changes(seed=seed, **changes)})
    return PageVariant(seed, tuple(traits), options)
