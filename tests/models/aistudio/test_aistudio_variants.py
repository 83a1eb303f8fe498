"""Generated variants of the page: each works, or fails with an error that names the cause."""

from typing import Any

import pytest
from tests.support.browsing import IN_ONE_BROWSER, Chromium, model_in

from windlass.testing.aistudio import FakeAIStudio, TrialResult, variant_of
from windlass.testing.aistudio.trial import SCRIPT, reset, try_model
from windlass.testing.aistudio.variants import TRAITS
from windlass.testing.script import Stepper

pytestmark = IN_ONE_BROWSER

SAMPLE = 1380
"""Renamed classes, shadow roots, and turns that are drawn again with new ids."""
ALL = range(60)
FAILING = {
    10: "covers the page",
    12: "'generating'",
    16: "'call_arguments'",
    18: "'turn'",
    20: "Answers may be wrong.",
}
"""Seeds that no program can read rightly, and what their errors name."""


async def outcome_of(chromium: Chromium, seed: int) -> TrialResult:
    variant = variant_of(seed)
    stepper: Stepper[dict[str, Any]] = Stepper(list(SCRIPT))
    with FakeAIStudio(lambda body: stepper.next(body)) as fake:
        reset(fake, variant)
        settings = {"ui_timeout_ms": 5000, "native_retry_count": 1}
        model = model_in(chromium, fake.url, attempts=1, silence=60.0, settings=settings)
        try:
            return await try_model(model, fake)
        finally:
            await model.aclose()


async def test_a_variant_that_can_be_read_is_answered(chromium: Chromium) -> None:
    outcome = await outcome_of(chromium, SAMPLE)
    assert outcome == TrialResult("answered"), variant_of(SAMPLE).name


async def test_a_variant_that_cannot_be_read_is_an_error_that_names_the_cause(
    chromium: Chromium,
) -> None:
    outcome = await outcome_of(chromium, 12)
    assert (outcome.kind, FAILING[12] in outcome.detail) == ("error", True), outcome


@pytest.mark.whole("the tests above, with two of the variants")
@pytest.mark.parametrize("seed", ALL)
async def test_no_variant_has_a_wrong_or_an_empty_answer(chromium: Chromium, seed: int) -> None:
    outcome = await outcome_of(chromium, seed)
    assert outcome.kind != "wrong", f"{variant_of(seed).name}: {outcome.detail}"
    assert FAILING.get(seed, "") in outcome.detail


async def test_a_seed_is_always_the_same_variant_and_each_trait_has_a_seed_of_its_own() -> None:
    assert variant_of(17) == variant_of(17)
    assert len({variant_of(seed).name for seed in ALL}) == len(ALL)
    assert all(len(variant_of(seed).traits) == 1 for seed in range(len(TRAITS)))


@pytest.mark.parametrize(
    ("text", "calls", "kind"),
    [("", [], "wrong"), ("Sunny.", [], "wrong")],
)
async def test_the_trial_notices_a_wrong_and_an_empty_answer(
    text: str, calls: list[Any], kind: str
) -> None:
    from windlass.testing import ScriptedModel

    with FakeAIStudio([]) as fake:
        assert (await try_model(ScriptedModel([text]), fake)).kind == kind
