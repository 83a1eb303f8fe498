# ruff: noqa: RUF001 - these characters are intended
"""Formats whose markers are special tokens, which do not occur in prose."""

from windlass.emulation.parser.format import CallHead, Format, Noise, Thoughts, ends
from windlass.emulation.parser.formats.shared import (
    BARE_LIST,
    BARE_OBJECT,
    THINK,
    invoked,
    noise,
    thoughts,
    wrapped_json,
)
from windlass.emulation.parser.json_calls import JsonArguments
from windlass.emulation.parser.json_text import LOOSE
from windlass.emulation.parser.parameters import Parameters
from windlass.emulation.parser.pattern import (
    NAME,
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
from windlass.emulation.parser.python_calls import PythonCalls


def _token(words: str) -> PatternPart:
    """Returns a DeepSeek token, also as ASCII: some proxies replace its bars and underlines."""
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
        CallHead(
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
        CallHead(
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


KIMI_K2 = Format(
    "kimi-k2",
    (
        CallHead(
            Pattern(
                opt(alt("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"), WS),
                "<|tool_call_begin|>",
                WS,
                NAME,
                WS,
                "<|tool_call_argument_begin|>",
            ),
            JsonArguments(),
            ends("<|tool_call_end|>", "<|tool_calls_section_end|>", "<|tool_call_section_end|>"),
            "any",
        ),
    ),
    (THINK,),
    noise("<|tool_calls_section_end|>", "<|im_end|>"),
)
_EDGES = ("open", "close")
KIMI_K3 = Format(
    "kimi-k3",
    (
        CallHead(
            Pattern(
                opt("<|open|>tools<|sep|>", WS),
                '<|open|>call tool="',
                NAME,
                '"',
                chars(r"[^<]", 0, 40),
                "<|sep|>",
            ),
            Parameters(
                seq(
                    '<|open|>argument key="',
                    chars(r'[^"<]', 1, 99, "key"),
                    '" type="',
                    chars(r"\w", 1, 20, "kind"),
                    '"<|sep|>',
                ),
                lit("<|close|>argument<|sep|>"),
                lit("<|close|>call<|sep|>"),
                ("<|close|>tools<|sep|>", "<|open|>call "),
            ),
            ends("<|close|>tools<|sep|>"),
            "any",
        ),
    ),
    (
        Thoughts(
            Pattern("<|open|>think<|sep|>"),
            Pattern(alt("<|close|>think<|sep|>", "<|open|>response<|sep|>")),
        ),
    ),
    noise(*(f"<|{edge}|>{what}<|sep|>" for edge in _EDGES for what in ("response", "message"))),
)

GEMMA4 = Format(
    "gemma4",
    (
        CallHead(
            Pattern("<|tool_call>", WS, "call:", NAME, WS, ahead("{")),
            JsonArguments(LOOSE),
            ends("<tool_call|>"),
            "any",
        ),
    ),
    (
        Thoughts(
            Pattern("<|channel>"), Pattern("<channel|>"), Pattern(opt("<|channel>"), "thought\n")
        ),
    ),
    noise("<|tool_response>", "<tool_response|>", "<turn|>"),
)
FUNCTIONGEMMA = Format(
    "functiongemma",
    (
        CallHead(
            Pattern("<start_function_call>", WS, "call:", NAME, WS, ahead("{")),
            JsonArguments(LOOSE),
            ends("<end_function_call>"),
            "any",
        ),
    ),
    (),
    noise("<start_function_response>", "<end_of_turn>"),
)

_RECIPIENT = seq(" to=functions.", NAME)
_MESSAGE = seq(WS, opt("<|constrain|>"), WS, opt("json"), WS, "<|message|>")
_ASSISTANT, _CHANNEL = "<|start|>assistant", alt("analysis", "commentary", "final")
_HARMONY_ENDS = ends("<|call|>", "<|end|>")
HARMONY = Format(
    "harmony",
    (
        CallHead(
            Pattern(opt(_ASSISTANT), "<|channel|>", _CHANNEL, _RECIPIENT, _MESSAGE),
            JsonArguments(),
            _HARMONY_ENDS,
            "any",
        ),
        CallHead(
            Pattern(_ASSISTANT, _RECIPIENT, "<|channel|>", _CHANNEL, _MESSAGE),
            JsonArguments(),
            _HARMONY_ENDS,
            "any",
        ),
        CallHead(
            Pattern(opt(_ASSISTANT), "<|channel|>", _CHANNEL, " to=", NAME, _MESSAGE),
            JsonArguments(),
            _HARMONY_ENDS,
        ),
    ),
    (
        Thoughts(
            Pattern(opt(_ASSISTANT), "<|channel|>analysis<|message|>"),
            Pattern(alt("<|end|>", "<|return|>")),
        ),
    ),
    noise(
        seq(opt(_ASSISTANT), "<|channel|>", alt("final", "commentary"), "<|message|>"),
        "<|end|>",
        "<|return|>",
        "<|call|>",
    ),
)

COHERE = Format(
    "cohere",
    (wrapped_json("<|START_ACTION|>", "<|END_ACTION|>", trust="any"),),
    (thoughts("<|START_THINKING|>", "<|END_THINKING|>"),),
    noise(
        "<|END_THINKING|>",
        *(f"<|{edge}_{what}|>" for edge in ("START", "END") for what in ("TEXT", "RESPONSE")),
        "<|END_OF_TURN_TOKEN|>",
    ),
)

_BRACKET_CALL = Pattern("<|tool_call_start|>", WS, opt("["), WS, NAME, WS, "(")
LFM2 = Format(
    "lfm2",
    (
        wrapped_json("<|tool_call_start|>", "<|tool_call_end|>", trust="any"),
        CallHead(_BRACKET_CALL, PythonCalls(), ends("]", "<|tool_call_end|>"), "any"),
    ),
    (THINK,),
    noise("<|im_end|>"),
)
LLAMA3 = Format(
    "llama3-json",
    (
        wrapped_json("<|python_tag|>", "<|eom_id|>", "<|eot_id|>"),
        CallHead(Pattern("<|python_tag|>", WS, NAME, WS, "("), PythonCalls(), ends("<|eom_id|>")),
        BARE_OBJECT,
    ),
    noise=noise("<|eom_id|>", "<|eot_id|>"),
)
INTERNLM2 = Format(
    "internlm2",
    (
        wrapped_json(
            seq("<|action_start|>", WS, alt("<|plugin|>", "<|interpreter|>")),
            "<|action_end|>",
            trust="any",
        ),
    ),
)
GRANITE = Format(
    "granite",
    (
        CallHead(
            Pattern("<|tool_call|>", WS, ahead("[")),
            wrapped_json("<|tool_call|>").body,
            None,
            "any",
        ),
        wrapped_json(alt("<|tool_call|>", "<tool_call>"), "</tool_call>"),
        BARE_LIST,
    ),
    (THINK,),
    noise("<|end_of_text|>"),
)

_MINIMAX = "]<]minimax[>["
MINIMAX_M3 = Format(
    "minimax-m3",
    (
        CallHead(
            Pattern(opt(f"{_MINIMAX}<tool_call>", WS), f'{_MINIMAX}<invoke name="', NAME, '">'),
            Parameters(
                seq(f"{_MINIMAX}<", chars(r"[^<>/]", 1, 99, "key"), ">"),
                seq(f"{_MINIMAX}</", chars(r"[^<>/]", 1, 99, "closed"), ">"),
                lit(f"{_MINIMAX}</invoke>"),
                (f"{_MINIMAX}</tool_call>", f"{_MINIMAX}<invoke "),
            ),
            ends(f"{_MINIMAX}</tool_call>"),
            "any",
        ),
    ),
    (thoughts("<mm:think>", "</mm:think>"),),
)
APERTUS = Format(
    "apertus",
    (wrapped_json("<|tools_prefix|>", "<|tools_suffix|>", trust="any", keyed=True),),
    (thoughts("<|inner_prefix|>", "<|inner_suffix|>"),),
)
GIGACHAT3 = Format(
    "gigachat3",
    (
        wrapped_json(
            alt("<|function_call|>", seq("<|message_sep|>", WS, "function call<|role_sep|>")),
            trust="any",
        ),
    ),
)
INKLING = Format(
    "inkling",
    (
        wrapped_json(
            seq(opt("<|message_model|>", chars(r"[\w.-]", 0, 99)), "<|content_invoke_tool_json|>"),
            "<|end_message|>",
            trust="any",
        ),
    ),
    (thoughts("<|content_thinking|>", "<|end_message|>"),),
    noise(
        "<|message_model|>", "<|content_text|>", "<|end_message|>", "<|content_model_end_sampling|>"
    ),
)
_TO, _TOOL, _SELF_ENDS = (
    "<|start|>assistant ",
    chars(r"[\w.-]", 1, 99),
    ("<|eom|>", ahead(_ASSISTANT)),
)
_ATEM = seq("to=", _TOOL, "<|message|><atem:function_calls>", WS)
_ATEM_ENDS = ("</atem:function_calls>", "<|eot|>", "<|eom|>")
MUSE_GLIMMER = Format(
    "muse-glimmer",
    (
        *invoked("atem:", seq(_TO, _ATEM), *_ATEM_ENDS, trust="any"),
        *invoked("atem:", _ATEM, *_ATEM_ENDS, trust="any", line=True),
    ),
    (
        Thoughts(Pattern(_TO, "to=self<|message|>"), Pattern(alt(*_SELF_ENDS))),
        Thoughts(Pattern("to=self<|message|>"), Pattern(alt(*_SELF_ENDS)), line=True),
    ),
    (
        *noise(seq(_TO, "to=user<|message|>"), "<|eot|>", "<|eom|>"),
        Noise(Pattern("to=user<|message|>"), line=True),
    ),
)

TOKENS = (
    KIMI_K2,
    KIMI_K3,
    GEMMA4,
    FUNCTIONGEMMA,
    HARMONY,
    COHERE,
    LFM2,
    LLAMA3,
    INTERNLM2,
    GRANITE,
    MINIMAX_M3,
    APERTUS,
    GIGACHAT3,
    INKLING,
    MUSE_GLIMMER,
)
