# ruff: noqa: RUF001 - the bars are the models' own
"""DeepSeek's formats, and Step's, which borrows its tokens."""

from windlass.emulation.parser.arguments import JsonArguments
from windlass.emulation.parser.format import Format, Head, ends
from windlass.emulation.parser.formats.shared import THINK, invoked, noise
from windlass.emulation.parser.pattern import NAME, WS, Part, Pattern, ahead, alt, opt, seq

__all__ = ["DEEPSEEK"]


def _token(words: str) -> Part:
    """DeepSeek's bars and underlines are not ASCII; proxies make them so."""
    spread, plain = words.replace(" ", "▁"), words.replace(" ", "_")
    return alt(f"<｜{spread}｜>", f"<｜{plain}｜>", f"<|{spread}|>")


_CALLS, _CALLS_END = _token("tool calls begin"), _token("tool calls end")
_CALL, _CALL_END, _SEP = map(_token, ("tool call begin", "tool call end", "tool sep"))
_OUTPUTS = ("output", "outputs")
_NOISE = noise(
    *(_token(f"tool {what} {edge}") for what in ("output", "outputs") for edge in ("begin", "end")),
    _CALLS_END,
    "<｜end▁of▁sentence｜>",
)
_START = alt(seq(_CALLS, WS, opt(_CALL, WS)), seq(_CALL, WS))
DEEPSEEK_V3 = Format(
    "deepseek-v3",
    (
        Head(
            Pattern(_START, "function", _SEP, WS, NAME, WS, ahead("```")),
            JsonArguments(),
            ends("```", _CALL_END, _CALLS_END),
            "any",
        ),
    ),
    (THINK,),
    _NOISE,
)
DEEPSEEK_V31 = Format(
    "deepseek-v31",
    (
        Head(
            Pattern(opt(_CALLS, WS), _CALL, WS, NAME, WS, _SEP),
            JsonArguments(),
            ends("```", _CALL_END, _CALLS_END),
            "any",
        ),
    ),
    (THINK,),
    _NOISE,
)
_DSML_ENDS = ("</｜DSML｜function_calls>", "</｜DSML｜tool_calls>")
DEEPSEEK_DSML = Format(
    "deepseek-dsml",
    invoked(
        "｜DSML｜",
        opt(alt("<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"), WS),
        *_DSML_ENDS,
        trust="any",
    ),
    (THINK,),
    noise("<｜end▁of▁sentence｜>"),
)

STEP3 = Format(
    "step3",
    invoked(
        "steptml:",
        seq(opt(_CALLS, WS), _CALL, WS, opt("function", _SEP, WS)),
        "<｜tool_call_end｜>",
        "<｜tool_calls_end｜>",
        trust="any",
    ),
    (THINK,),
)

DEEPSEEK = (DEEPSEEK_V3, DEEPSEEK_V31, DEEPSEEK_DSML, STEP3)
