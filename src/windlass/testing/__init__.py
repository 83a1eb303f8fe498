"""For tests, ours and yours: a model that follows a script, and fake upstreams on real wires."""

from windlass.testing.fake_openai import FakeOpenAI
from windlass.testing.gate import Gate
from windlass.testing.script import (
    Fault,
    Step,
    Turn,
    call,
    calls,
    cut,
    disconnect,
    hang,
    malformed_json,
    malformed_sse,
    raw_call,
    refuse,
    say,
    slow,
    think,
)
from windlass.testing.scripted import ScriptedModel
from windlass.testing.stepping import ScriptExhausted

__all__ = [
    "ScriptedModel",
    "ScriptExhausted",
    "FakeOpenAI",
    "Turn",
    "Step",
    "Fault",
    "Gate",
    "say",
    "think",
    "call",
    "calls",
    "raw_call",
    "cut",
    "refuse",
    "slow",
    "hang",
    "disconnect",
    "malformed_json",
    "malformed_sse",
]
