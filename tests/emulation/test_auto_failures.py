"""Error messages of servers without function calling, word for word, and other messages."""

import pytest

from windlass import ModelError, NativeModeUnavailable
from windlass.emulation.mode import Failure, native_failure

UNSUPPORTED = [
    (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),  # Ollama
    (400, "codellama:latest does not support tools"),
    (
        400,
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    ),  # vLLM
    (500, "tools param requires --jinja flag"),  # llama.cpp
    (500, "Unsupported param: tools"),  # llama.cpp, older
    (404, "No endpoints found that support tool use. To learn more, visit: https://"),  # OpenRouter
    (400, "Function calling is not enabled for models/gemma-3-12b-it"),  # Gemini
    (
        400,
        "tools is not supported in this model. For a list of supported models, refer to",
    ),  # OpenAI
    (400, "Unsupported parameter: 'tools' is not supported with this model."),
    (400, "Unrecognized request argument supplied: tools"),  # Azure
    (400, "Unrecognized request argument supplied: functions"),
    (400, "`tool calling` is not supported with this model"),  # Groq
    (400, "deepseek-reasoner does not support Function Calling"),  # DeepSeek
    (400, "This model doesn't support tool use."),  # Bedrock
    (500, "This model doesn't support tool use in streaming mode."),
    (422, "body.tools: Extra inputs are not permitted"),  # a strict FastAPI server
    (400, "litellm.UnsupportedParamsError: x does not support parameters: ['tools']"),  # LiteLLM
    (501, "Function calling is not implemented"),
    (400, "Role 'function' is not supported. Please use a valid role: USER, MODEL."),
    (None, "This model does not support tools"),  # inside a stream
]
CHOICE = [
    (404, "No endpoints found that support the provided 'tool_choice' value."),  # OpenRouter
    (400, "This model doesn't support the toolConfig.toolChoice.tool field."),  # Bedrock
    (400, "Function calling mode `ANY` is not enabled for api version v1beta"),  # Gemini
    (400, "tool_choice='required' is not supported with this model"),
]
MALFORMED = [
    (400, "Failed to call a function. Please adjust your prompt. See 'failed_generation'"),  # Groq
    (500, "error parsing tool call: raw='{\"a\": ', err=unexpected end of JSON input"),  # Ollama
    (500, "Failed to parse input as a tool call"),
]
OTHERS = [
    (401, "You must provide an API key; this key does not support tools"),
    (429, "Rate limit reached; tools are not available right now"),
    (503, "The service does not support tools while it is overloaded"),
    (404, "The model `gpt-9` does not exist or you do not have access to it."),
    (400, "Invalid schema for function 'get_weather': 'oneOf' is not permitted."),
    (400, "Invalid 'tools[0].function.name': string does not match pattern; it is not supported"),
    (400, "tools.0.custom.input_schema: JSON schema is invalid, '$ref' is not supported"),
    (400, "* GenerateContentRequest.tools[0].function_declarations[0].parameters: unsupported"),
    (400, "An assistant message with 'tool_calls' must be followed by tool messages"),
    (400, "Please ensure that the number of function response parts is equal to the number"),
    (400, "Invalid parameter: 'tool_call_id' of 'call_1' not found; it is not allowed"),
    (400, "maximum context length is 8192 tokens; 100 in the functions; this is not supported"),
    (400, "Unsupported parameter: 'stop' is not supported with this model."),
    (400, "Unsupported value: 'temperature' does not support 0 with this model."),
    (400, "The image is not supported"),
    (500, "Internal server error"),
    (None, "the connection was closed before an answer"),
]


@pytest.mark.parametrize(
    ("status", "message", "failure"),
    [
        *((status, message, "unsupported") for status, message in UNSUPPORTED),
        *((status, message, "choice") for status, message in CHOICE),
        *((status, message, "malformed") for status, message in MALFORMED),
        *((status, message, None) for status, message in OTHERS),
    ],
)
def test_error_messages_of_servers_are_classified(
    status: int | None, message: str, failure: Failure | None
) -> None:
    assert native_failure(ModelError(message, status=status)) == failure


def test_error_codes_decide_without_a_message() -> None:
    assert native_failure(ModelError("?", status=400, code="tool_use_failed")) == "malformed"
    unavailable = ModelError("toggle not found", status=500, code="native_mode_unavailable")
    assert native_failure(unavailable) == "unavailable"


def test_the_error_without_a_fallback_has_the_shape_of_the_wire() -> None:
    error = NativeModeUnavailable("toggle not found", ModelError("x", status=500))
    assert (error.code, error.type, error.status) == (
        "native_mode_unavailable",
        "function_calling_error",
        500,
    )
    assert str(error) == "Native function calling failed: toggle not found"
    assert not error.retryable
