"""Formats without tags: JSON, Python and plain lines. Most need a declared name to be a call."""

from windlass.emulation.parser.format import CallHead, Format, Noise, ends
from windlass.emulation.parser.formats.shared import (
    BARE_LIST,
    BARE_OBJECT,
    JSON_FENCE,
    THINK,
    noise,
    thoughts,
    wrapped_json,
)
from windlass.emulation.parser.json_calls import JsonArguments, JsonCalls, TextInput
from windlass.emulation.parser.json_text import LOOSE
from windlass.emulation.parser.pattern import NAME, WS, Pattern, ahead, alt, chars, opt, seq
from windlass.emulation.parser.python_calls import PRINTED, PythonCalls

_MISTRAL_THINK = thoughts("[THINK]", "[/THINK]")
_MISTRAL_JSON = wrapped_json("[TOOL_CALLS]", "[/TOOL_CALLS]", "</s>")
_MISTRAL_NAMED = CallHead(
    Pattern(
        "[TOOL_CALLS]",
        WS,
        NAME,
        opt("[CALL_ID]", chars(r"[\w-]", 1, 99)),
        WS,
        alt("[ARGS]", ahead("{")),
    ),
    JsonArguments(),
    ends("[/TOOL_CALLS]", "</s>"),
)
MISTRAL = Format("mistral", (_MISTRAL_JSON, _MISTRAL_NAMED), (_MISTRAL_THINK,))
MISTRAL_JSON = Format("mistral-json", (_MISTRAL_JSON,), (_MISTRAL_THINK,))
MISTRAL_NAMED = Format("mistral-name-args", (_MISTRAL_NAMED,), (_MISTRAL_THINK,))

_BRACKETED = CallHead(Pattern("[", WS, NAME, WS, "("), PythonCalls(), ends("]"), "declared")
PYTHONIC = Format("pythonic", (_BRACKETED,))
LLAMA4 = Format(
    "llama4-pythonic",
    (
        CallHead(
            Pattern("<|python_start|>", WS, opt("["), WS, NAME, WS, "("),
            PythonCalls(),
            ends("]", "<|python_end|>"),
            "any",
        ),
        _BRACKETED,
    ),
    noise=noise("<|eom|>", "<|eot|>"),
)
TOOL_CODE = Format(
    "tool_code",
    (
        CallHead(
            Pattern("```tool_code", WS, PRINTED),
            PythonCalls(),
            ends(")", "```"),
            "declared",
            line=True,
            fence=True,
        ),
    ),
)

_FUNCTOOLS = CallHead(Pattern("functools", WS, ahead("[")), JsonCalls(), None, line=True)
PHI4MINI = Format("phi4mini", (_FUNCTOOLS,))
FIREFUNCTION = Format("firefunction", (_FUNCTOOLS,))
FUNCTIONARY = Format(
    "functionary",
    (
        CallHead(
            Pattern(">>>", NAME, "\n", WS, ahead("{")), JsonArguments(), None, "marked", line=True
        ),
    ),
    noise=(Noise(Pattern(">>>all\n"), line=True),),
)

BARE_JSON = Format("bare-json", (BARE_OBJECT, BARE_LIST, JSON_FENCE))
JSON_FENCED = Format("json-fence", (JSON_FENCE,))
JSON_ARRAY = Format("json-array", (BARE_LIST, JSON_FENCE))
JSON_TOOL_CALLS = Format("json-tool_calls", (BARE_OBJECT, JSON_FENCE))
GENERIC_JSON = Format("generic-json", (BARE_OBJECT, BARE_LIST, JSON_FENCE))
XLAM = Format(
    "xlam",
    (
        _MISTRAL_JSON,
        wrapped_json("<tool_call>", "</tool_call>"),
        BARE_LIST,
        BARE_OBJECT,
        JSON_FENCE,
    ),
    (THINK,),
)

_BOLD = opt("**")
_NUMBER = chars(r"[ \t\d]", 0, 4)
_ACTION = seq(_BOLD, "Action", _NUMBER, _BOLD, ":", _BOLD, WS)
_ACTION_INPUT = seq(_BOLD, "Action", _NUMBER, alt(" Input", "Input"), _NUMBER, _BOLD, ":")
_REACT_END = ahead(
    "\n", WS, _BOLD, alt("Observation", "Thought", "Action", "Final Answer"), _NUMBER, _BOLD, ":"
)
_REACT = CallHead(
    Pattern(_ACTION, chars(r"[^\n]", 1, 99, "name"), "\n", WS, _ACTION_INPUT),
    TextInput(_REACT_END),
    None,
    "declared",
    line=True,
)
REACT = Format("react", (_REACT,))
JSON_FENCE_ACTION = Format("json-fence-action", (_REACT, JSON_FENCE))

REQUEST_FUNCTION_CALL = Format(
    "request-function-call",
    (
        CallHead(
            Pattern(
                *(_BOLD, "Request function call:", _BOLD, WS, NAME, WS),
                *(_BOLD, "Parameters:"),
            ),
            JsonArguments(LOOSE),
            ends("```"),
            line=True,
        ),
        CallHead(
            Pattern("call:", NAME, ahead("{")), JsonArguments(LOOSE), None, "declared", line=True
        ),
    ),
)
NONE = Format("none")

PLAIN = (
    MISTRAL,
    MISTRAL_JSON,
    MISTRAL_NAMED,
    LLAMA4,
    PYTHONIC,
    TOOL_CODE,
    PHI4MINI,
    FIREFUNCTION,
    FUNCTIONARY,
    REACT,
    REQUEST_FUNCTION_CALL,
    JSON_FENCE_ACTION,
    JSON_FENCED,
    JSON_ARRAY,
    JSON_TOOL_CALLS,
    BARE_JSON,
    GENERIC_JSON,
    XLAM,
    NONE,
)
