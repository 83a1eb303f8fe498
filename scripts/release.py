"""`make release`: builds, checks and tries a release. Nothing is uploaded.

Each step prints one line, `ok`, `FAILED` or `NOT RUN` with the reason. The exit code is 1 if a step
failed. A step that needs a service that cannot be reached is reported as not run.

    python -m scripts.release                   everything
    python -m scripts.release --only build check
    python -m scripts.release --pythons 3.12    the smoke tests of one version
    python -m scripts.release --extras core gateway
"""

import argparse
import hashlib
import json
import re
import shutil
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, Literal, NamedTuple

from scripts.commands import ROOT, CommandFailed, run
from scripts.deploy_check import CheckFailed, check_all

DIST = ROOT / "dist"
WORK = ROOT / "build" / "release"
UV = ROOT / ".venv-tools" / "bin" / "uv"
TOOLS = ROOT / ".venv-release" / "bin"
SMOKE = ROOT / "scripts" / "smoke.py"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
WITH_WEIGHTS = "local"
EXTRAS = ("core", "aistudio", "cli", "fleet", "gateway", "gguf", "mcp", "otel", "all")
"""The extras that the smoke tests install. `local` takes 1.2 GB: `--extras local` tries it."""
SDIST_TOP = {"src", "CHANGELOG.md", "LICENSE", "README.md", "PKG-INFO", "pyproject.toml"}
SDIST_TOP |= {".gitignore"}
EPOCH = "315532800"  # 1980-01-01, the first time that a zip file can have
UNREACHABLE = re.compile(
    r"ConnectionError|ConnectTimeout|Name or service not known|Failed to resolve|ServiceError"
    r"|Temporary failure in name resolution|Max retries exceeded|Connection refused|403|Forbidden"
)

State = Literal["ok", "FAILED", "NOT RUN"]


class Result(NamedTuple):
    state: State
    detail: str


def version() -> str:
    """Returns the version, from its only source."""
    text = (ROOT / "src" / "windlass" / "__init__.py").read_text("utf-8")
    (found,) = re.findall(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    return found


def wheel() -> Path:
    return DIST / f"windlass-{version()}-py3-none-any.whl"


def sdist() -> Path:
    return DIST / f"windlass-{version()}.tar.gz"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_version() -> Result:
    """Checks that the changelog has the version, and that a tag of this commit matches it."""
    current = version()
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    if not re.search(
        rf"^## \[{re.escape(current)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE
    ):
        return Result("FAILED", f"CHANGELOG.md has no section `## [{current}] - DATE`")
    tags = run("git", "tag", "--points-at", "HEAD").split()
    wrong = [tag for tag in tags if tag.startswith("v") and tag != f"v{current}"]
    if wrong:
        return Result("FAILED", f"this commit has the tag {wrong[0]}, but the version is {current}")
    tagged = f"tag v{current}" if f"v{current}" in tags else f"not tagged yet: git tag v{current}"
    return Result("ok", f"{current}, {tagged}")


def build() -> Result:
    """Builds twice in different folders, and checks that the hashes are the same."""
    shutil.rmtree(DIST, ignore_errors=True)
    first = _built(DIST)
    second = _built(WORK / "again")
    if first != second:
        return Result("FAILED", f"two builds differ: {first} and {second}")
    names = ", ".join(f"{name} sha256:{value[:12]}" for name, value in sorted(first.items()))
    return Result("ok", f"two builds are identical: {names}")


def _built(folder: Path) -> dict[str, str]:
    shutil.rmtree(folder, ignore_errors=True)
    # Without a cache, so that the second build is not a copy of the first.
    run(UV, "build", "--quiet", "--out-dir", folder, SOURCE_DATE_EPOCH=EPOCH)
    return {path.name: digest(path) for path in folder.iterdir() if path.suffix in (".whl", ".gz")}


def check_contents() -> Result:
    """Checks that the wheel has exactly the package, and the sdist exactly the wheel's sources."""
    with zipfile.ZipFile(wheel()) as file:
        names = file.namelist()
    info = f"windlass-{version()}.dist-info/"
    strange = [name for name in names if not name.startswith(("windlass/", info))]
    wanted = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "windlass").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    missing = wanted - set(names)
    with tarfile.open(sdist()) as archive:
        top = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    if strange or missing or top - SDIST_TOP or not top >= {"src", "LICENSE", "README.md"}:
        return Result("FAILED", f"strange {strange}, missing {missing}, top of the sdist {top}")
    run(TOOLS / "check-wheel-contents", "--ignore", "W002,W009", wheel())
    return Result("ok", f"{len(names)} files, {wheel().stat().st_size / 1e6:.1f} MB")


def check_metadata() -> Result:
    """Runs `twine check`, and checks that the links of the description work on PyPI."""
    run(TOOLS / "twine", "check", "--strict", wheel(), sdist())
    with zipfile.ZipFile(wheel()) as file:
        text = file.read(f"windlass-{version()}.dist-info/METADATA").decode()
    relative = relative_links(str(HeaderParser().parsestr(text).get_payload()))
    if relative:
        return Result("FAILED", f"links that PyPI cannot follow: {relative}")
    return Result("ok", "twine check passed; every link of the description is absolute")


def relative_links(description: str) -> list[str]:
    """Returns the relative links and pictures of a Markdown text."""
    links = re.findall(r"\]\(([^)\s]+)\)", description)
    links += re.findall(r'(?:src|srcset|href)="([^"]+)"', description)
    return [link for link in links if not link.startswith(("https://", "#"))]


def make_sbom() -> Result:
    """Writes two CycloneDX documents: one for the core, one for all extras."""
    made: list[str] = []
    for name in ("core", "all"):
        python = _environment(sys.executable, name, name)
        path = DIST / f"windlass-{version()}-{name}.cdx.json"
        command = [TOOLS / "cyclonedx-py", "environment", python, "--output-reproducible"]
        run(*command, "--pyproject", ROOT / "pyproject.toml", "-o", path)
        parts = json.loads(path.read_text("utf-8"))["components"]
        made.append(f"{path.name} with {len(parts)} components")
    return Result("ok", ", ".join(made))


def audit() -> Result:
    """Reports known vulnerabilities of the locked dependencies."""
    locked = WORK / "requirements.txt"
    locked.parent.mkdir(parents=True, exist_ok=True)
    command = ["export", "--locked", "--quiet", "--extra", "all", "--no-dev", "--no-emit-project"]
    locked.write_text(run(UV, *command, "--no-hashes"), "utf-8")
    report = WORK / "audit.json"
    report.unlink(missing_ok=True)
    command = ["--disable-pip", "--no-deps", "--timeout", "15", "--format", "json"]
    try:
        run(TOOLS / "pip-audit", *command, "-o", report, "-r", locked)
    except CommandFailed as error:
        lines = str(error).splitlines()
        if not report.exists() and UNREACHABLE.search(str(error)):
            return Result("NOT RUN", f"the vulnerability service cannot be reached: {lines[-1]}")
        if not report.exists():
            return Result("FAILED", "\n" + str(error))
    return audited(json.loads(report.read_text("utf-8"))["dependencies"])


def audited(dependencies: Sequence[Mapping[str, Any]]) -> Result:
    """Returns the result. pip-audit exits with 0 even if its service knows no package."""
    found = [
        f"{each['name']} {each['version']}: {', '.join(one['id'] for one in each['vulns'])}"
        for each in dependencies
        if each.get("vulns")
    ]
    if found:
        return Result("FAILED", "; ".join(found))
    skipped = [each["name"] for each in dependencies if "skip_reason" in each]
    if skipped:
        known = len(dependencies) - len(skipped)
        detail = f"the vulnerability service knows {known} of {len(dependencies)} packages"
        return Result("NOT RUN", f"{detail}; unknown: {', '.join(skipped[:3])}, ...")
    return Result("ok", f"no known vulnerabilities in {len(dependencies)} packages")


def check_deploy() -> Result:
    try:
        return Result("ok", "; ".join(check_all()))
    except CheckFailed as error:
        return Result("FAILED", str(error))


def smoke(pythons: Sequence[str], extras: Sequence[str]) -> Iterator[tuple[str, Result]]:
    """Installs the wheel with each extra into a clean environment, and tries it there."""
    for wanted in pythons:
        program = found_python(wanted)
        if program is None:
            yield f"smoke {wanted}", Result("NOT RUN", f"uv cannot provide Python {wanted} here")
            continue
        for extra in extras:
            name = f"smoke {wanted} {extra}"
            try:
                python = _environment(program, f"{wanted}-{extra}", extra)
                yield name, Result("ok", run(python, "-I", SMOKE, extra, cwd=WORK).strip())
            except CommandFailed as error:
                yield name, Result("FAILED", "\n" + str(error))
            finally:
                shutil.rmtree(WORK / f"{wanted}-{extra}", ignore_errors=True)


def found_python(wanted: str) -> str | None:
    """Returns an installed Python, or one that uv downloads."""
    for command in (("find",), ("install", "--quiet")):
        try:
            found = run(UV, "python", *command, wanted, "--no-project")
        except CommandFailed:
            continue
        if command[0] == "install":
            found = run(UV, "python", "find", wanted, "--no-project")
        return found.strip().splitlines()[-1]
    # pyenv's versions are not on the path, so uv does not find them.
    places = sorted(Path.home().glob(f".pyenv/versions/{wanted}.*/bin/python"))
    return str(places[-1]) if places else None


def _environment(python: str, name: str, extra: str) -> Path:
    """Creates an environment with the wheel and an extra, and returns the path of its Python."""
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    run(UV, "venv", "--quiet", "--no-project", "--python", python, folder)
    # By its path, because the index may have another package of this name.
    wanted = f"windlass @ {wheel().as_uri()}" if extra == "core" else _with_extra(extra)
    program = folder / "bin" / "python"
    run(UV, "pip", "install", "--quiet", "--python", program, wanted)
    return program


def _with_extra(extra: str) -> str:
    return f"windlass[{extra}] @ {wheel().as_uri()}"


STEPS: dict[str, Callable[[], Result]] = {
    "version": check_version,
    "build": build,
    "contents": check_contents,
    "metadata": check_metadata,
    "deploy": check_deploy,
    "sbom": make_sbom,
    "audit": audit,
}


def results(options: argparse.Namespace) -> Iterator[tuple[str, Result]]:
    wanted = options.only or [*STEPS, "smoke"]
    for name, step in STEPS.items():
        if name not in wanted:
            continue
        try:
            yield name, step()
        except CommandFailed as error:
            yield name, Result("FAILED", "\n" + str(error))
    if "smoke" in wanted:
        yield from smoke(options.pythons, options.extras)


def verdict(states: Mapping[str, State]) -> str:
    if "FAILED" in states.values():
        return "NOT ready: see the steps above"
    missing = [name for name, state in states.items() if state == "NOT RUN"]
    return f"ready, but not run: {', '.join(missing)}" if missing else "ready to upload"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=[*STEPS, "smoke"])
    parser.add_argument("--pythons", nargs="+", default=list(PYTHONS))
    parser.add_argument("--extras", nargs="+", default=list(EXTRAS))
    options = parser.parse_args()
    states: dict[str, State] = {}
    for name, result in results(options):
        print(f"{result.state:<8} {name}: {result.detail}", flush=True)
        states[name] = result.state
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    print(f"\nPython {requires['requires-python']}; files in {DIST.relative_to(ROOT)}")
    print(verdict(states))
    return 1 if "FAILED" in states.values() else 0


if __name__ == "__main__":
    sys.exit(main())
