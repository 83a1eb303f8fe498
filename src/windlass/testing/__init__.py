"""Test helpers: a model that follows a script, and fake upstream services over HTTP."""

from windlass.testing.exchange import Received
from windlass.testing.fake_anthropic import FakeAnthropic
from windlass.testing.fake_gemini import FakeGemini
from windlass.testing.fake_openai import FakeOpenAI
from windlass.testing.fake_responses import FakeResponses
from windlass.testing.script import (
    Fault,
    Gate,
    Latch,
    Script,
    ScriptExhausted,
    Step,
    Turn,
    call,
    calls,
    cut,
    disconnect,
    hang,
    interrupt,
    last_prompt,
    malformed_json,
    malformed_sse,
    raw_call,
    refuse,
    say,
    slow,
    think,
    tool_results,
)
from windlass.testing.scripted import ScriptedModel

__all__ = [
    "ScriptedModel",
    "ScriptExhausted",
    "FakeOpenAI",
    "FakeResponses",
    "FakeGemini",
    "FakeAnthropic",
    "Received",
    "Turn",
    "Fault",
    "Step",
    "Script",
    "Gate",
    "Latch",
    "say",
    "think",
    "call",
    "calls",
    "raw_call",
    "cut",
    "refuse",
    "slow",
    "interrupt",
    "hang",
    "disconnect",
    "malformed_json",
    "malformed_sse",
    "tool_results",
    "last_prompt",
]
