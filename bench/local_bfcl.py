"""A sample of the Berkeley Function Calling Leaderboard, asked of an embedded model.

    python bench/local_bfcl.py                        about 80 cases, an hour on two idle cores
    python bench/local_bfcl.py --count 4 --seed mine  4 cases of each category, others than above
    python bench/local_bfcl.py --skip 8               the next cases of the same seed
    python bench/local_bfcl.py --only irrelevance --show
    python bench/local_bfcl.py --log cases.jsonl      each case as a line; a second run continues
    python bench/local_bfcl.py --record said.jsonl    what the model writes; generated only once

Each seed chooses other cases, so that a method is not tuned to those that it is measured by. The
checker is BFCL's own. A case of `irrelevance` is right if no function is called.
"""

import argparse
import asyncio
import json
import random
import sys
import time
import types
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from local_methods import METHODS
from local_recording import RecordedModel
from msgspec import Struct

from windlass import AsyncClient
from windlass.content import FunctionDeclaration, Message, Schema
from windlass.schema import mapped

CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "irrelevance",
    "live_irrelevance",
)
GROUPS = {
    "simple_python": "non-live",
    "multiple": "non-live",
    "parallel": "non-live",
    "parallel_multiple": "non-live",
    "live_simple": "live",
    "live_multiple": "live",
    "live_parallel": "live",
    "live_parallel_multiple": "live",
    "irrelevance": "irrelevance",
    "live_irrelevance": "irrelevance",
}
MAX_TOOL_CHARS = 6000
"""Longer lists of functions take minutes to read."""
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "long": "integer"}


class Case(Struct, frozen=True):
    """One question with its functions; `gold` is None if no function may be called."""

    category: str
    row: dict[str, Any]
    gold: list[Any] | None

    @property
    def messages(self) -> list[Message]:
        makers = {
            "system": Message.system,
            "user": Message.user,
            "assistant": Message.assistant,
        }
        return [makers[each["role"]](each["content"]) for each in self.row["question"][0]]

    @property
    def tools(self) -> list[FunctionDeclaration]:
        return [
            FunctionDeclaration(
                _plain(each["name"]), each["description"], _json_schema(each["parameters"])
            )
            for each in self.row["function"]
        ]

    def is_right(self, calls: list[tuple[str, Any]]) -> bool:
        if self.gold is None:
            return not calls
        names = {_plain(each["name"]): each["name"] for each in self.row["function"]}
        made = [{names.get(name, name): arguments} for name, arguments in calls]
        if not made or not all(isinstance(arguments, dict) for _, arguments in calls):
            return False
        return _checked(self.row["function"], made, self.gold, self.category)


def sample(seed: str, count: int, categories: tuple[str, ...], skip: int = 0) -> Iterator[Case]:
    """`count` cases of each category, in the order of the seed, after the first `skip`."""
    for category in categories:
        rows, gold = _rows(f"BFCL_v4_{category}.json"), {}
        if GROUPS[category] != "irrelevance":
            answers = _rows(f"possible_answer/BFCL_v4_{category}.json")
            gold = {each["id"]: each["ground_truth"] for each in answers}
        rows = [row for row in rows if len(json.dumps(row["function"])) <= MAX_TOOL_CHARS]
        random.Random(f"{seed} {category}").shuffle(rows)
        for row in rows[skip : skip + count]:
            yield Case(category, row, gold.get(row["id"]))


def _rows(path: str) -> list[dict[str, Any]]:
    text = (files("bfcl_eval") / "data" / path).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _plain(name: str) -> str:
    return name.replace(".", "_")


def _json_schema(schema: Schema) -> Schema:
    """BFCL names Python's types."""
    result = mapped(schema, _json_schema)
    kind = result.pop("type", None)
    if kind and kind != "any":
        result["type"] = _TYPES.get(kind, kind)
    if result.get("default") == "None":
        del result["default"]
    return result


def _checked(functions: Any, calls: Any, gold: Any, category: str) -> bool:
    """BFCL's checker, without the SDKs of all the models that its settings import."""
    name = "bfcl_eval.constants.model_config"
    if name not in sys.modules:
        plain = types.SimpleNamespace(underscore_to_dot=False)
        settings = types.ModuleType(name)
        settings.MODEL_CONFIG_MAPPING = {"windlass": plain}  # type: ignore[attr-defined]
        sys.modules[name] = settings
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

    verdict = ast_checker(functions, calls, gold, Language.PYTHON, category, "windlass")
    return bool(verdict["valid"])


async def measure(options: argparse.Namespace) -> None:
    """Prints a line for each category as soon as it is known, and the groups at the end."""
    kind, client_of = METHODS[options.method]
    local = RecordedModel(options.model, options.record) if options.record else kind(options.model)
    await local.load()
    right, asked, done = Counter[str](), Counter[str](), _verdicts(options.log)
    async with client_of(local) as client:
        for category in options.only or CATEGORIES:
            began = time.perf_counter()
            for case in sample(options.seed, options.count, (category,), options.skip):
                known = done.get(case.row["id"])
                verdict = await _asked(client, case, options) if known is None else known
                right[category] += verdict
                asked[category] += 1
            seconds = (time.perf_counter() - began) / max(1, asked[category])
            print(f"{category}: {right[category]} of {asked[category]}, {seconds:.0f} s each")
            sys.stdout.flush()
    for group in dict.fromkeys(GROUPS.values()):
        members = [name for name in asked if GROUPS[name] == group]
        if total := sum(asked[name] for name in members):
            good = sum(right[name] for name in members)
            print(f"{group}: {good} of {total}, {good / total:.0%}")


def _verdicts(log: Path | None) -> dict[str, bool]:
    """The cases that an earlier run asked, and whether they were right."""
    if log is None or not log.exists():
        return {}
    rows = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    return {row["id"]: row["right"] for row in rows}


async def _asked(client: AsyncClient, case: Case, options: argparse.Namespace) -> bool:
    reply = await client.generate(
        case.messages, tools=case.tools, execute_tools=False, max_tokens=300
    )
    calls = [(call.name, call.arguments) for call in reply.calls]
    right = case.is_right(calls)
    question = case.row["question"][0][-1]["content"][:200]
    if options.show and not right:
        print(f"  {case.row['id']}: {question!r} {calls} {reply.text[:200]!r}", file=sys.stderr)
        sys.stderr.flush()
    if options.log is not None:
        row = {"id": case.row["id"], "right": right, "question": question, "calls": calls}
        with options.log.open("a", encoding="utf-8") as file:
            print(json.dumps({**row, "text": reply.text[:200]}), file=file)
    return right


def main() -> None:
    description, _, epilog = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", nargs="?", default="qwen", help="qwen, smol, or a GGUF file")
    parser.add_argument("--method", choices=METHODS, default="profile", help="how it is asked")
    parser.add_argument("--count", type=int, default=8, help="cases of each category")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first cases of each")
    parser.add_argument("--seed", default="windlass", help="chooses the cases")
    parser.add_argument("--only", nargs="+", choices=CATEGORIES, help="only these categories")
    parser.add_argument("--log", type=Path, metavar="FILE", help="write each case to this file")
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="store and reuse what the model writes"
    )
    parser.add_argument("--show", action="store_true", help="print what went wrong")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
