"""`python -m windlass.testing.aistudio --seed N`: tries `aistudio/` on generated page variants."""

import argparse
import asyncio
import os
import sys
import tempfile
from collections import Counter
from typing import Any

from windlass.models import Retry, create_model
from windlass.testing.aistudio.fake import FakeAIStudio
from windlass.testing.aistudio.trial import SCRIPT, TrialResult, reset, try_model
from windlass.testing.aistudio.variants import PageVariant, variant_of
from windlass.testing.script import Stepper


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m windlass.testing.aistudio",
        description="Tries aistudio/ on generated variants of the page. Each must be answered"
        " rightly, or fail with an error that names the cause.",
    )
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--count", type=int, default=1, help="the number of seeds (default: 1)")
    parser.add_argument(
        "--timeout", type=int, default=3000, help="FC_UI_TIMEOUT_MS (default: 3000)"
    )
    parser.add_argument("--serve", action="store_true", help="only serve the page of --seed")
    options = parser.parse_args()
    if options.serve:
        return _serve(variant_of(options.seed))
    os.environ["FC_UI_TIMEOUT_MS"] = str(options.timeout)
    os.environ.setdefault("WINDLASS_AISTUDIO_LATE_CALL", "0.5")
    with tempfile.TemporaryDirectory(prefix="windlass-aistudio-") as profile:
        os.environ["WINDLASS_AISTUDIO_PROFILE"] = profile
        seeds = range(options.seed, options.seed + options.count)
        return asyncio.run(_try_all([variant_of(seed) for seed in seeds]))


def _serve(variant: PageVariant) -> int:
    with FakeAIStudio(lambda _: "Hello.", **variant.options) as fake:
        sys.stdout.write(f"{variant.name}\n{fake.url}\nPress Enter to stop.\n")
        sys.stdin.readline()
    return 0


async def _try_all(variants: list[PageVariant]) -> int:
    counts: Counter[str] = Counter()
    for variant in variants:
        outcome = await _try(variant)
        counts[outcome.kind] += 1
        sys.stdout.write(f"{outcome.kind:9} {variant.name}\n")
        if outcome.detail:
            sys.stdout.write(f"          {outcome.detail}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{', '.join(f'{count} {kind}' for kind, count in counts.items())}\n")
    return 1 if counts["wrong"] else 0


async def _try(variant: PageVariant) -> TrialResult:
    stepper: Stepper[dict[str, Any]] = Stepper(list(SCRIPT))
    with FakeAIStudio(lambda body: stepper.next(body)) as fake:
        reset(fake, variant)
        model = create_model(
            "aistudio/default", base_url=fake.url, retry=Retry(attempts=1), timeout=30.0
        )
        try:
            return await try_model(model, fake)
        finally:
            await model.aclose()


if __name__ == "__main__":
    sys.exit(main())
