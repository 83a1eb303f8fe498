"""Formats whose markers are tags: plain text that seldom occurs in prose."""

from windlass.emulation.parser.call import Trust
from windlass.emulation.parser.format import CallHead, Format, ends
from windlass.emulation.parser.formats.shared import (
    HERMES_HEAD,
    THINK,
    invoked,
    noise,
    thoughts,
    wrapped_json,
)
from windlass.emulation.parser.json_calls import JsonArguments, TextInput
from windlass.emulation.parser.parameters import NoArguments, Parameters
from windlass.emulation.parser.pattern import (
    NAME,
    WS,
    Pattern,
    ahead,
    alt,
    chars,
    lit,
    opt,
    seq,
)
from windlass.emulation.parser.python_calls import PythonCalls
from windlass.emulation.parser.yaml_calls import YamlBody

WINDLASS = Format("windlass", (HERMES_HEAD,), (THINK,))
HERMES = Format("hermes-json", (HERMES_HEAD,), (THINK,), noise("<|im_end|>"))


# <function=name><parameter=key>value</parameter></function>

_TAG_NAME = chars(r"[^<>\n]", 1, 99, "name")
_FUNCTION = seq("<function=", _TAG_NAME, WS, opt(">"), WS)
_WRAPPERS = ("</tool_call>", "</seed:tool_call>", "<tool_call>", "<seed:tool_call>")
_PARAMETERS = Parameters(
    seq("<parameter=", chars(r"[^<>]", 1, 99, "key"), ">"),
    lit("</parameter>"),
    lit("</function>"),
    (*_WRAPPERS, "<function=", "<|im_end|>"),
    seq("<function=", chars(r"[^<>\n]", 1, 99), ">", WS, ahead(alt("<parameter=", "</function>"))),
    trim=True,
)
_BODY_AHEAD = ahead(alt("<parameter=", "</function>", "</tool_call>"))


def _function_in(wrapper: str) -> CallHead:
    closing = wrapper.replace("<", "</")
    return CallHead(Pattern(wrapper, WS, _FUNCTION, _BODY_AHEAD), _PARAMETERS, ends(closing), "any")


_BARE_FUNCTION = CallHead(Pattern(_FUNCTION, _BODY_AHEAD), _PARAMETERS, ends("</tool_call>"))
_JSON_FUNCTION = CallHead(
    Pattern(opt("<tool_call>", WS), "<function=", NAME, ">", WS, ahead("{")),
    JsonArguments(),
    ends("</function>", "</tool_call>"),
)
QWEN3_CODER = Format(
    "qwen3-coder-xml",
    (_function_in("<tool_call>"), _BARE_FUNCTION),
    (THINK,),
    noise("<|im_end|>"),
)
SEED_OSS = Format(
    "seed-oss",
    (_function_in("<seed:tool_call>"), _BARE_FUNCTION),
    (thoughts("<seed:think>", "</seed:think>"), THINK),
    noise("<seed:eos>"),
)
OPENHANDS = Format("openhands-function", (_BARE_FUNCTION,))
K_EXAONE = Format("k-exaone", QWEN3_CODER.heads, (THINK,))
FUNCTIONARY_31 = Format("functionary-v3.1", (_JSON_FUNCTION,))


# <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>

_ARG_PAIRS = Parameters(
    seq(
        "<arg_key>",
        chars(r"(?:(?!</arg_key>)[^\n])", 1, 99, "key"),
        "</arg_key>",
        WS,
        alt("<arg_value>", ahead(chars(r"[^<\s]", 1, 1))),
    ),
    lit("</arg_value>"),
    lit("</tool_call>"),
    ("<tool_call>", "</tool_calls>", "<|observation|>", "<|user|>"),
    seq(
        *("<tool_call>", WS, chars(r"""[^\s<>{}\[\]()"']""", 1, 99), WS, opt("<tool_sep>", WS)),
        ahead("<arg_key>"),
    ),
)
_PAIRS_AHEAD = seq(WS, ahead(alt("<arg_key>", "</tool_call>")))
_PAIRED_NAME = chars(r"""[^\s<>{}\[\]()"']""", 1, 99, "name")
GLM45 = Format(
    "glm45",
    (CallHead(Pattern("<tool_call>", WS, _PAIRED_NAME, _PAIRS_AHEAD), _ARG_PAIRS),),
    (THINK,),
    noise("<|observation|>", "<|user|>"),
)
HUNYUAN_V3 = Format(
    "hunyuan-v3",
    (
        CallHead(
            Pattern(
                opt("<tool_calls>", WS),
                "<tool_call>",
                WS,
                _PAIRED_NAME,
                WS,
                "<tool_sep>",
                _PAIRS_AHEAD,
            ),
            _ARG_PAIRS,
            ends("</tool_calls>"),
        ),
    ),
    (THINK,),
)
LAGUNA = Format("laguna", (HERMES_HEAD, *GLM45.heads), (THINK,))


# <invoke name="..."><parameter name="...">

_BARE_INVOKE = invoked("", None, "</function_calls>", "</minimax:tool_call>", trust="marked")


def _invoked_in(tag: str, trust: Trust) -> tuple[CallHead, ...]:
    return invoked("", seq(f"<{tag}>", WS), f"</{tag}>", trust=trust)


ANTHROPIC = Format(
    "anthropic-invoke",
    (*_invoked_in("function_calls", "marked"), *_BARE_INVOKE),
)
MINIMAX_M2 = Format(
    "minimax-m2",
    (
        *invoked("", seq("<minimax:tool_call>", WS), "</minimax:tool_call>", trust="any"),
        *_BARE_INVOKE,
    ),
    (THINK,),
    noise("[e~["),
)
DOTS = Format(
    "dots",
    (
        *invoked("", seq("<dots_function_call>", WS), "</dots_function_call>", trust="any"),
        *_BARE_INVOKE,
    ),
    (THINK,),
)
MINICPM5 = Format(
    "minicpm5",
    (
        CallHead(
            Pattern('<function name="', NAME, '">'),
            Parameters(
                seq('<param name="', chars(r'[^<>"]', 1, 99, "key"), '">'),
                lit("</param>"),
                lit("</function>"),
                ("<function ",),
                seq('<function name="', chars(r'[^<>"\n]', 1, 99), '">', WS, ahead("<param ")),
                cdata=True,
            ),
        ),
    ),
    (THINK,),
)


# Lists of JSON between tags.


_CALLS_TAG = wrapped_json("<tool_calls>", "</tool_calls>")
HUNYUAN_A13B = Format("hunyuan-a13b", (_CALLS_TAG,), (THINK,), noise("<answer>", "</answer>"))
JAMBA = Format("jamba", (_CALLS_TAG,))
APRIEL = Format("apriel", (_CALLS_TAG,))
NEMOTRON = Format("nemotron", (wrapped_json("<TOOLCALL>", "</TOOLCALL>"),), (THINK,))
LONGCAT = Format("longcat", (wrapped_json("<longcat_tool_call>", "</longcat_tool_call>"),))
GRANITE_20B = Format("granite-20b", (wrapped_json("<function_call>", "</function_call>"),))
GRANITE4 = Format("granite4", (HERMES_HEAD,), (THINK,))
ERNIE45 = Format("ernie45", (HERMES_HEAD,), (THINK,), noise("<response>", "</response>"))


# Other formats.

OLMO3 = Format(
    "olmo3",
    (
        CallHead(
            Pattern("<function_calls>", WS, NAME, WS, "("),
            PythonCalls(),
            ends("</function_calls>"),
        ),
    ),
    (THINK,),
)
LANGCHAIN_XML = Format(
    "langchain-xml",
    (
        CallHead(
            Pattern("<tool>", WS, NAME, WS, "</tool>", WS, "<tool_input>"),
            TextInput(lit("</tool_input>"), exact=True),
            ends("</tool_input>"),
        ),
    ),
)

_TOOL_NAME = chars(r"[\w.-]", 1, 99, "name")
_TOOL_TAG = seq("<", _TOOL_NAME, WS, ">", WS)


_TAGGED = Parameters(
    seq("<", chars(r"[\w.-]", 1, 99, "key"), WS, ">"),
    seq("</", WS, chars(r"[\w.-]", 1, 99, "closed"), WS, ">"),
    references=True,
    cdata=True,
    repeats=True,
)
XML_TOOL_TAG = Format(
    "xml-tool-tag",
    (
        CallHead(Pattern(_TOOL_TAG, ahead("<")), _TAGGED, trust="declared"),
        CallHead(Pattern("<", _TOOL_NAME, WS, "/>"), NoArguments(), trust="declared"),
        CallHead(
            Pattern(_TOOL_TAG, ahead("{", WS, alt('"', "}"))),
            JsonArguments(),
            ends(seq("</", chars(r"[\w.-]", 1, 99), ">")),
            "declared",
        ),
    ),
)
YAML_XML = Format(
    "yaml-xml",
    (
        CallHead(
            Pattern(_TOOL_TAG, ahead(chars(r"[^\W\d]", 1, 1), chars(r"[\w-]", 0, 99), ":")),
            YamlBody(),
            trust="declared",
        ),
        *XML_TOOL_TAG.heads,
    ),
)

TAGS = (
    WINDLASS,
    HERMES,
    QWEN3_CODER,
    SEED_OSS,
    OPENHANDS,
    K_EXAONE,
    FUNCTIONARY_31,
    GLM45,
    HUNYUAN_V3,
    LAGUNA,
    ANTHROPIC,
    MINIMAX_M2,
    DOTS,
    MINICPM5,
    HUNYUAN_A13B,
    JAMBA,
    APRIEL,
    NEMOTRON,
    LONGCAT,
    GRANITE_20B,
    GRANITE4,
    ERNIE45,
    OLMO3,
    LANGCHAIN_XML,
    XML_TOOL_TAG,
    YAML_XML,
)
