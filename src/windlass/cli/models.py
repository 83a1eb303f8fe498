"""`windlass models`: lists models and providers, and why some are not usable."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from windlass.cli.model_selection import choose_model
from windlass.cli.output import own_stdout, table
from windlass.cli.providers import (
    EMBEDDED,
    SERVICES,
    creation_problem,
    embedded_readiness,
    plug_in_readiness,
    plug_in_target,
    service_readiness,
)
from windlass.errors import ConfigError
from windlass.gateway.config import examine_config, find_config
from windlass.gateway.config.environment import MODEL
from windlass.models import plug_in_names

DESCRIPTION = """\
Lists the models of windlass.toml and WINDLASS_MODEL, and every provider, with the reason if one is
not usable. No model is called, and no key is shown."""

EPILOG = """\
examples:
  windlass models
  windlass models --json | jq '.[] | select(.usable) | .name'

The star marks the default of `windlass run` and `windlass chat`. NAME/... is a provider: you can
use any of its models, such as openai/gpt-5-mini. aistudio/ needs no key: it controls the page of
Google AI Studio in a browser, after you have signed in once with `windlass aistudio login`;
aistudio/default is the model that the page shows. Providers of other packages are listed, too."""


class KnownModel(Struct, frozen=True):
    """A name for --model, or a provider."""

    name: str
    target: str
    usable: bool
    because: str
    remedy: str | None = None
    source: str = "provider"
    """`windlass.toml`, `WINDLASS_MODEL`, or `provider`."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def run(options: argparse.Namespace) -> int:
    """Problems of the configuration are left to `windlass check-config`."""
    with own_stdout() as output:
        models, default = list(known_models()), _default()
    if options.json:
        output.json(models)
        return 0
    rows = [
        (
            "*" if default in (each.name, each.target) else "",
            each.name,
            "yes" if each.usable else "no",
            each.because if each.remedy is None else f"{each.because} ({each.remedy})",
        )
        for each in models
    ]
    output.text(table(("", "MODEL", "USABLE", "WHY"), rows))
    return 0


def known_models() -> Iterator[KnownModel]:
    """The configured models, then the providers."""
    if os.environ.get(MODEL):
        yield from _configured(None)
    if (path := find_config(Path())) is not None:
        yield from _configured(path)
    for service in SERVICES:
        ready = service_readiness(service)
        name = f"{service.name}/..."
        yield KnownModel(name, service.target, ready.ready, ready.because, ready.remedy)
    for plug_in in plug_in_names():
        ready = plug_in_readiness(plug_in)
        target = plug_in_target(plug_in)
        yield KnownModel(f"{plug_in}/...", target, ready.ready, ready.because, ready.remedy)
    for weights in EMBEDDED:
        ready = embedded_readiness(weights)
        name = f"local/{weights.name}"
        yield KnownModel(name, name, ready.ready, ready.because, ready.remedy)


def _configured(path: Path | None) -> Iterator[KnownModel]:
    config, _ = examine_config(path, os.environ)
    for model in config.models.values():
        problem = creation_problem(
            model.target,
            base_url=model.base_url,
            api_key=os.environ.get(model.api_key_env) if model.api_key_env else None,
            headers=model.headers or None,
        )
        yield KnownModel(
            model.name,
            model.target,
            problem is None,
            problem or model.target,
            source=path.name if path else MODEL,
        )


def _default() -> str | None:
    """The model that commands use without --model."""
    try:
        return choose_model(None).config.name
    except ConfigError:
        return None
