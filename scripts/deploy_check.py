"""Checks the files in `deploy/` with the installed tools, and reports the missing tools.

A line per check; raises `CheckFailed` or `CommandFailed` for an invalid file.

    python -m scripts.deploy_check
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from scripts.commands import ROOT, CommandFailed, run

DEPLOY = ROOT / "deploy"
TOOLS = ROOT / ".venv-release" / "bin"
WINDLASS = ROOT / ".venv" / "bin" / "windlass"
KUBERNETES = "1.37"
KEY = f'\n[[keys]]\nname = "check"\nhash = "sha256:{"0" * 64}"\n'


class CheckFailed(Exception):
    """A file is invalid. The text is the reason."""


def check_dockerfile() -> str:
    run(TOOLS / "hadolint", DEPLOY / "Dockerfile")
    return "Dockerfile: hadolint passed, not built (needs a Docker daemon)"


def check_compose() -> str:
    schema = "vendor.compose-spec"
    run(TOOLS / "check-jsonschema", "--builtin-schema", schema, DEPLOY / "compose.yaml")
    return "compose.yaml: valid by the schema of the Compose specification, not started"


def check_unit() -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        return "windlass.service: NOT CHECKED, systemd-analyze is not installed"
    with tempfile.TemporaryDirectory() as folder:
        # The program of the unit is not installed on this machine.
        text = (DEPLOY / "windlass.service").read_text("utf-8")
        unit = Path(folder, "windlass.service")
        unit.write_text(text.replace("/opt/windlass/bin/windlass", "/bin/true"), "utf-8")
        shown = run(program, "verify", unit)
        if shown.strip():
            raise CheckFailed(shown)
    return "windlass.service: systemd-analyze verify passed, not started"


def manifests() -> Iterator[Path]:
    return iter(sorted(DEPLOY.glob("kubernetes/*.yaml")))


def check_kubernetes() -> str:
    files = [path for path in manifests() if path.name != "kustomization.yaml"]
    shown = run(TOOLS / "kubernetes-validate", "--strict", "-k", KUBERNETES, *files)
    if "ERROR" in shown:
        raise CheckFailed(shown)
    detail = f"{len(files)} manifests valid by the strict schema of Kubernetes {KUBERNETES}"
    if kubectl := shutil.which("kubectl"):
        run(kubectl, "kustomize", DEPLOY / "kubernetes")
        detail += ", kustomize builds them"
    return f"kubernetes: {detail}, not applied (needs a cluster)"


def check_nats() -> str:
    program = ROOT / ".venv" / "bin" / "nats-server"
    run(program, "-t", "-c", DEPLOY / "kubernetes/nats.conf", POD_NAME="nats-0")
    return "nats.conf: nats-server -t passed"


def check_configurations() -> str:
    files = [DEPLOY / "windlass.toml", DEPLOY / "fleet.toml", DEPLOY / "kubernetes/windlass.toml"]
    for path in files:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, "windlass.toml")
            copy.write_text(path.read_text("utf-8") + KEY, "utf-8")
            run(WINDLASS, "check-config", copy)
    return f"{len(files)} configurations: windlass check-config passed"


CHECKS: tuple[Callable[[], str], ...] = (
    check_dockerfile,
    check_compose,
    check_unit,
    check_kubernetes,
    check_nats,
    check_configurations,
)


def check_all() -> list[str]:
    return [check() for check in CHECKS]


if __name__ == "__main__":
    try:
        print("\n".join(check_all()))
    except (CheckFailed, CommandFailed) as error:
        sys.exit(str(error))
