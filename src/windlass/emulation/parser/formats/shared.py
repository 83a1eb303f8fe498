"""Parts that several formats are made of."""

from windlass.emulation.parser.call import Trust
from windlass.emulation.parser.format import Head, Noise, Thoughts, ends
from windlass.emulation.parser.json_calls import CALL_KEYS, JsonCalls
from windlass.emulation.parser.parameters import NoArguments, Parameters
from windlass.emulation.parser.pattern import WS, Part, Pattern, ahead, alt, chars, lit, opt, seq

_QUOTE = alt('"', "'")
_NAME = chars(r"""[^<>"'\n]""", 1, 99, "name")
_KEY = chars(r"""[^<>"'\n]""", 1, 99, "key")
_KEYS = alt(*CALL_KEYS)
CALL_OBJECT = seq("{", WS, alt(seq('"', _KEYS, '"'), seq("'", _KEYS, "'")), WS, ":")
CALL_LIST = seq("[", WS, CALL_OBJECT)


_OBJECTS = ahead(opt("[", WS), "{")


def wrapped_json(
    opening: Part | str, *closing: str, trust: Trust = "marked", keyed: bool = False
) -> Head:
    """Calls as JSON between two markers; some models put a code fence between them too."""
    start = Pattern(opening, WS, opt("```", opt("json"), WS), _OBJECTS)
    return Head(start, JsonCalls(keyed), ends("```", *closing), trust)


def invoked(
    space: str, wrapper: Part | None, *closing: str, trust: Trust, line: bool = False
) -> tuple[Head, ...]:
    """`<invoke name="..."><parameter name="...">...</parameter></invoke>`, in a namespace."""
    start = seq(*([wrapper] if wrapper else ()), f"<{space}invoke name=", _QUOTE, _NAME, _QUOTE, WS)
    kind = opt(WS, alt("string", "type"), "=", _QUOTE, chars(r"\w", 1, 20, "kind"), _QUOTE)
    body = Parameters(
        seq(f"<{space}parameter name=", _QUOTE, _KEY, _QUOTE, kind, WS, ">"),
        lit(f"</{space}parameter>"),
        lit(f"</{space}invoke>"),
        (*closing, f"<{space}invoke "),
        seq(
            *(f"<{space}invoke name=", _QUOTE, chars(r"""[^<>"'\n]""", 1, 99), _QUOTE, WS, ">", WS),
            ahead(alt(f"<{space}parameter ", f"</{space}invoke>")),
        ),
        cdata=trust != "any",
        untyped="json" if trust == "any" else "text",
    )
    return (
        Head(Pattern(start, ">"), body, ends(*closing), trust, line),
        Head(Pattern(start, "/>"), NoArguments(), ends(*closing), trust, line),
    )


def thoughts(opening: str, closing: str, *, plain: bool = False) -> Thoughts:
    return Thoughts(Pattern(opening), Pattern(closing), plain=plain)


def noise(*tokens: Part | str) -> tuple[Noise, ...]:
    return tuple(Noise(Pattern(token)) for token in tokens)


THINK = thoughts("<think>", "</think>", plain=True)

HERMES_HEAD = wrapped_json("<tool_call>", "</tool_call>")
BARE_OBJECT = Head(Pattern(ahead(CALL_OBJECT)), JsonCalls(), trust="declared")
BARE_LIST = Head(Pattern(ahead(CALL_LIST)), JsonCalls(), trust="declared")
_CALLS = alt(CALL_OBJECT, CALL_LIST)
_LANGUAGES = alt("json", "tool_calls", "tool_call", "tool_use", "tool", "function_call")
JSON_FENCE = Head(
    Pattern(
        opt("Action:", WS),
        alt("```", "~~~"),
        opt(_LANGUAGES),
        WS,
        ahead(alt(CALL_OBJECT, CALL_LIST)),
    ),
    JsonCalls(),
    ends("```", "~~~"),
    trust="declared",
    line=True,
    fence=True,
)
