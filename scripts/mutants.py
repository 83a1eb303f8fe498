"""Changes the code in small ways, one at a time, and reports the changes that no test notices.

    python scripts/mutants.py                                   40 mutants in loop, runs and wires
    python scripts/mutants.py --count 10 --seed 3 src/windlass/loop/round.py

Each mutant is one edit in a copy of `src`. Its tests run in stages, from the nearest folder to all
quick tests, until one fails. A mutant that passes all of them has survived: a test is missing, or
the edit changes nothing that anyone can observe. The same seed chooses the same mutants.
"""

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = Path("src/windlass")
DEFAULT_FOLDERS = ("loop", "runs", "wires")

EDITS_NOTHING = ("TypeVar", "getLogger", "NewType")
"""Calls whose arguments are only names, on which no behaviour depends."""


class Stage(NamedTuple):
    """A group of tests that run with a mutant. Quick tests start no process."""

    tests: tuple[str, ...]
    quick: bool = True

    def __str__(self) -> str:
        return " ".join((*self.tests, "(quick)" if self.quick else "(all)"))


GATEWAY = Stage(("tests/gateway/routes", "tests/gateway/runs"))
EVERYTHING = Stage(("tests",))
STAGES: dict[str, tuple[Stage, ...]] = {
    "loop": (Stage(("tests/loop",)), Stage(("tests/client", "tests/runs")), GATEWAY),
    "runs/jetstream": (
        Stage(("tests/runs/jetstream",), quick=False),
        Stage(("tests/runs",), quick=False),
    ),
    "runs/sqlite": (Stage(("tests/runs",)), Stage(("tests/runs",), quick=False)),
    "runs": (Stage(("tests/runs",)), Stage(("tests/client",)), GATEWAY),
    "wires": (Stage(("tests/wires",)), Stage(("tests/models", "tests/testing")), GATEWAY),
}
"""The tests for a folder, the most specific first. `EVERYTHING` runs after them."""

SLOWER_THAN_USUAL = 4
"""A stage hangs if it takes this many times as long as without a mutant."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
}


class Edit(NamedTuple):
    """Replaces the source of a node."""

    kind: str
    node: ast.expr | ast.stmt
    text: str


class Mutant(NamedTuple):
    """A file with one edit."""

    file: Path
    line: int
    kind: str
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.kind}\n    - {self.before}\n    + {self.after}"


class _Edits(ast.NodeVisitor):
    """Finds the edits of a module. Annotations, docstrings and type-checking blocks have none."""

    def __init__(self) -> None:
        self.found: list[Edit] = []

    def _add(self, kind: str, node: ast.expr | ast.stmt, new: ast.AST | str) -> None:
        self.found.append(Edit(kind, node, new if isinstance(new, str) else ast.unparse(new)))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if any("overload" in ast.unparse(each) for each in node.decorator_list):
            return
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self._add("negated condition", node.test, f"(not ({ast.unparse(node.test)}))")
            self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._add("negated condition", node.test, f"(not ({ast.unparse(node.test)}))")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._add("negated condition", node.test, f"(not ({ast.unparse(node.test)}))")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        other = COMPARISONS[type(node.ops[0])]
        swapped = ast.Compare(node.left, [other(), *node.ops[1:]], node.comparators)
        self._add("changed comparison", node, f"({ast.unparse(swapped)})")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add("and/or", node, f"({ast.unparse(ast.BoolOp(other, node.values))})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if other := OPERATORS.get(type(node.op)):
            swapped = ast.BinOp(node.left, other(), node.right)
            self._add("changed operator", node, f"({ast.unparse(swapped)})")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if ast.unparse(node.func).rpartition(".")[2] not in EDITS_NOTHING:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool(value):
                self._add("changed constant", node, str(not value))
            case int(value) | float(value):
                self._add("changed constant", node, f"({value} + 1)")
            case str(value) if value:
                self._add("changed constant", node, repr(f"{value}~"))
            case _:
                pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Skips f-strings, because their parts have no position before Python 3.12."""

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not _is_none(node.value):
            self._add("returns None", node, "return None")
            self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant | ast.Yield | ast.YieldFrom):
            self._add("dropped statement", node, "pass")
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(each, ast.Attribute | ast.Subscript) for each in node.targets):
            self._add("dropped statement", node, "pass")
        if not any(isinstance(each, ast.Name) and each.id == "__all__" for each in node.targets):
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add("dropped statement", node, "pass")
        self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add("dropped statement", node, "pass")

    def visit_Match(self, node: ast.Match) -> None:
        """Skips patterns, because most of their edits do not compile."""
        self.visit(node.subject)
        for case in node.cases:
            if case.guard is not None:
                self._add("negated condition", case.guard, f"(not ({ast.unparse(case.guard)}))")
            for statement in case.body:
                self.visit(statement)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def edits_of(file: Path) -> list[Edit]:
    """Returns all edits of a file, in the order of the source."""
    visitor = _Edits()
    visitor.visit(ast.parse((ROOT / file).read_bytes()))
    return visitor.found


def mutant_of(file: Path, edit: Edit) -> Mutant | None:
    """Returns the file with the edit, or None if it is not valid Python."""
    source = (ROOT / file).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    node = edit.node
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = starts[node.lineno - 1] + node.col_offset
    end = starts[node.end_lineno - 1] + node.end_col_offset
    mutated = (source[:start] + edit.text.encode() + source[end:]).decode()
    try:
        compile(mutated, str(file), "exec", dont_inherit=True)
    except SyntaxError:
        return None
    before = " ".join(source[start:end].decode().split())
    return Mutant(file, node.lineno, edit.kind, before, edit.text, mutated)


def chosen(files: Sequence[Path], count: int, seed: int) -> list[Mutant]:
    """Returns mutants of different lines. The same seed chooses the same mutants."""
    pool = [(file, edit) for file in files for edit in edits_of(file)]
    random.Random(seed).shuffle(pool)
    picked: dict[tuple[Path, int], Mutant] = {}
    for file, edit in pool:
        if len(picked) == count:
            break
        if mutant := mutant_of(file, edit):
            picked.setdefault((mutant.file, mutant.line), mutant)
    return list(picked.values())


def stages_for(file: Path) -> tuple[Stage, ...]:
    folder = file.relative_to(PACKAGE).parent.as_posix()
    fitting = next((STAGES[known] for known in STAGES if folder.startswith(known)), ())
    return (*fitting, EVERYTHING)


class Baseline(NamedTuple):
    """The result of a stage without a mutant."""

    seconds: float
    failing: tuple[str, ...]
    """The tests that fail without a mutant. Their failures do not count."""


def run_tests(
    copy: Path, stage: Stage, *options: str, timeout: float | None = None
) -> tuple[int, str]:
    """The exit code and the output of the tests over the copied sources.

    Raises `TimeoutExpired` if they hang.
    """
    always = ("-q", "-n0", "-p", "no:cacheprovider", "--no-header", "--tb=no")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *always, *options, *stage.tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(copy), "WINDLASS_TEST_QUICK": "1" * stage.quick},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return process.returncode, output


class Baselines:
    """The results of the stages without a mutant, measured when a mutant needs them."""

    def __init__(self, copy: Path) -> None:
        self._copy = copy
        self._baselines: dict[Stage, Baseline] = {}
        self._lock = Lock()

    def of(self, stage: Stage) -> Baseline:
        """Raises `SystemExit` if the stage cannot run at all."""
        with self._lock:
            if stage not in self._baselines:
                self._baselines[stage] = self._measure(stage)
            return self._baselines[stage]

    def _measure(self, stage: Stage) -> Baseline:
        began = time.monotonic()
        code, output = run_tests(self._copy, stage)
        if code > 1:
            raise SystemExit(f"cannot run {stage}:\n{output}")
        lines = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        failing = tuple(line.split(" ", 1)[1].split(" - ")[0] for line in lines)
        found = Baseline(time.monotonic() - began, failing)
        print(f"{stage}: {found.seconds:.0f} s, fails without a mutant: {failing}", flush=True)
        return found


def outcome(mutant: Mutant, copy: Path, baselines: Baselines) -> str:
    """Returns the stage that noticed the mutant, or `survived`."""
    target = copy / mutant.file.relative_to("src")
    original = target.read_text()
    target.write_text(mutant.source)
    try:
        for stage in stages_for(mutant.file):
            seconds, failing = baselines.of(stage)
            options = ["-x", *(f"--deselect={test}" for test in failing)]
            try:
                code, _ = run_tests(copy, stage, *options, timeout=20 + SLOWER_THAN_USUAL * seconds)
            except subprocess.TimeoutExpired:
                return f"hangs in {stage}"
            if code:
                return f"killed by {stage}"
        return "survived"
    finally:
        target.write_text(original)


def python_files(paths: Sequence[Path]) -> list[Path]:
    found = [
        file.relative_to(ROOT)
        for path in paths
        for file in ([ROOT / path] if path.suffix == ".py" else sorted((ROOT / path).rglob("*.py")))
    ]
    return [file for file in found if file.name != "__init__.py"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    defaults = [PACKAGE / folder for folder in DEFAULT_FOLDERS]
    parser.add_argument("paths", nargs="*", type=Path, default=defaults)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print the mutants and test nothing")
    arguments = parser.parse_args()
    files = python_files(arguments.paths)
    mutants = chosen(files, arguments.count, arguments.seed)
    if arguments.list:
        print(*mutants, sep="\n")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(arguments.jobs + 1):
            copy = Path(folder, str(number), "src")
            shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
            copies.put(copy)
        baselines = Baselines(copies.get())

        def reported(mutant: Mutant) -> str:
            copy = copies.get()
            found = outcome(mutant, copy, baselines)
            copies.put(copy)
            print(f"{found}: {mutant}", flush=True)
            return found

        with ThreadPoolExecutor(arguments.jobs) as pool:
            outcomes = list(pool.map(reported, mutants))
    print(*(f"{count:4} {what}" for what, count in Counter(outcomes).most_common()), sep="\n")
    return int("survived" in outcomes)


if __name__ == "__main__":
    sys.exit(main())
