"""A model that is forced to obey `tool_choice`, in each mode."""

from typing import Any

import pytest
from tests.support.asking import asked, events_of, names_of, text_of

from windlass import ModelError, NativeModeUnavailable
from windlass.emulation.mode import AutoModel
from windlass.events import ToolCallDelta, ToolCallEnded, ToolCallStarted
from windlass.gateway.models.wrappers import EnforcedModel
from windlass.model import Model
from windlass.settings import FunctionCallingSettings
from windlass.testing import ScriptedModel, call, calls


class Emulated(ScriptedModel):
    """A model in emulated mode whose server reads some calls by itself."""

    mode = "emulated"


def held(model: Model) -> EnforcedModel:
    return EnforcedModel(model, insists=True)


@pytest.mark.parametrize("kind", [ScriptedModel, Emulated])
async def test_only_the_required_call_is_passed_on(kind: type[ScriptedModel]) -> None:
    turn = calls(call("get_time"), call("get_weather", city="Paris"), text="I look. ")
    events = await events_of(held(kind([turn])), asked(choice="get_weather"))
    assert (names_of(events), text_of(events)) == (["get_weather"], "I look. ")
    pieces = (ToolCallStarted, ToolCallDelta, ToolCallEnded)
    assert {event.index for event in events if isinstance(event, pieces)} == {1}


@pytest.mark.parametrize("step", ["No.", call("get_time")])
async def test_an_emulated_turn_without_the_required_call_emits_nothing(step: Any) -> None:
    seen: list[Any] = []
    with pytest.raises(ModelError) as caught:
        async with held(Emulated([step])).stream(asked(choice="get_weather")) as events:
            async for event in events:
                seen.append(event)
    assert (caught.value.code, seen) == ("tool_choice_ignored", [])


async def test_without_a_fallback_the_error_names_native_mode() -> None:
    settings = FunctionCallingSettings(fallback_on_failure=False)
    native = ScriptedModel(["No."])
    model = AutoModel(native, lambda: native, settings)
    with pytest.raises(NativeModeUnavailable):
        await events_of(held(model), asked(choice="required"))
