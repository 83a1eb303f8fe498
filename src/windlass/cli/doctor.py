"""`windlass doctor`: what is here, what is missing, and the command that puts it right."""

import argparse

from windlass.cli.checkup import Check, checkup
from windlass.cli.models import KnownModel, known_models
from windlass.cli.output import own_stdout
from windlass.cli.toolfiles import choose_model
from windlass.errors import ConfigError

__all__ = ["configure", "run"]

DESCRIPTION = """\
Looks at what Windlass can use here: its extras, the providers' keys, the browser and profile for
aistudio/, the embedded model, the windlass.toml of this directory. Each line is ok, missing or
problem, and under it is the command that puts it right. No model is called, no browser is started,
and no key is shown."""

EPILOG = """\
examples:
  windlass doctor
  windlass doctor --json | jq -r '.checks[] | select(.fix) | .fix'

Not everything that is missing is needed: one model is enough. The exit code is 0 if there is one,
1 if there is none."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("--json", action="store_true", help="write one JSON object")


def run(options: argparse.Namespace) -> int:
    with own_stdout() as output:
        checks = list(checkup())
        usable = [model for model in known_models() if model.usable]
        conclusion = _conclusion(usable)
    if options.json:
        names = [each.name for each in usable]
        output.json({"ready": bool(usable), "usable": names, "checks": checks})
    else:
        output.text(f"{''.join(map(_lines, checks))}\n{conclusion}\n")
    return 0 if usable else 1


def _lines(check: Check) -> str:
    line = f"{check.state:<8} {check.name}: {check.detail}\n"
    return line if check.fix is None else f"{line}{'':<8} fix: {check.fix}\n"


def _conclusion(usable: list[KnownModel]) -> str:
    if not usable:
        return "Nothing can run yet: one of the keys above, or the embedded model, is enough."
    names = ", ".join(each.name for each in usable)
    try:
        chosen = choose_model(None)
    except ConfigError as error:
        return f"These can be used: {names}. Without --model: {error}"
    if not any(chosen.config.name in (each.name, each.target) for each in usable):
        name = chosen.config.name
        return f"These can be used: {names}. Without --model it is {name!r}, which cannot."
    return f"Ready: `windlass run` uses {chosen.config.target} ({chosen.because})."
