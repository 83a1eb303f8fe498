"""Parts that several formats share."""

from windlass.emulation.parser.call import Trust
from windlass.emulation.parser.format import CallHead, Noise, Thoughts, ends
from windlass.emulation.parser.json_calls import CALL_KEYS, JsonCalls
from windlass.emulation.parser.parameters import NoArguments, Parameters
from windlass.emulation.parser.pattern import (
    WS,
    Pattern,
    PatternPart,
    ahead,
    alt,
    chars,
    lit,
    opt,
    seq,
)

_QUOTE = alt('"', "'")
_NAME = chars(r"""[^<>"'\n]""", 1, 99, "name")
_KEY = chars(r"""[^<>"'\n]""", 1, 99, "key")
_KEYS = alt(*CALL_KEYS)
CALL_OBJECT = seq("{", WS, alt(seq('"', _KEYS, '"'), seq("'", _KEYS, "'")), WS, ":")
CALL_LIST = seq("[", WS, CALL_OBJECT)


_OBJECTS = ahead(opt("[", WS), "{")


def wrapped_json(
    opening: PatternPart | str, *closing: str, trust: Trust = "marked", keyed: bool = False
) -> CallHead:
    """Returns the head of JSON calls between two markers, with an optional code fence inside."""
    start = Pattern(opening, WS, opt("```", opt("json"), WS), _OBJECTS)
    return CallHead(start, JsonCalls(keyed), ends("```", *closing), trust)


def invoked(
    space: str, wrapper: PatternPart | None, *closing: str, trust: Trust, line: bool = False
) -> tuple[CallHead, ...]:
    """Returns heads for `<invoke name="..."><parameter name="...">...</parameter></invoke>`.

    `space` is the prefix of the tag names.
    """
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
        CallHead(Pattern(start, ">"), body, ends(*closing), trust, line),
        CallHead(Pattern(start, "/>"), NoArguments(), ends(*closing), trust, line),
    )


def thoughts(opening: str, closing: str, *, plain: bool = False) -> Thoughts:
    return Thoughts(Pattern(opening), Pattern(closing), plain=plain)


def noise(*tokens: PatternPart | str) -> tuple[Noise, ...]:
    return tuple(Noise(Pattern(token)) for token in tokens)


THINK = thoughts("<think>", "</think>", plain=True)

HERMES_HEAD = wrapped_json("<tool_call>", "</tool_call>")
BARE_OBJECT = CallHead(Pattern(ahead(CALL_OBJECT)), JsonCalls(), trust="declared")
BARE_LIST = CallHead(Pattern(ahead(CALL_LIST)), JsonCalls(), trust="declared")
_CALLS = alt(CALL_OBJECT, CALL_LIST)
_LANGUAGES = alt("json", "tool_calls", "tool_call", "tool_use", "tool", "function_call")
JSON_FENCE = CallHead(
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
