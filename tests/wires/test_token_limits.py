"""The limits of tokens that services name in their errors, each in its own words."""

import pytest

from windlass.wires.upstream_errors import (
    CONTEXT_EXCEEDED,
    OutputLimit,
    RefusedPrompt,
    is_context_exceeded,
    output_limit,
    problem_in,
    problem_of,
    prompt_size,
)

SIZE = RefusedPrompt(9000, 8192)
TOO_LONG = [
    (
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in"
            " 9000 tokens. Please reduce the length of the messages."
        ),
        SIZE,
    ),
    (
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"
            " (9000 in the messages, 0 in the completion). Please reduce it."
        ),
        SIZE,
    ),
    (
        (
            "This endpoint's maximum context length is 8192 tokens. However, you requested"
            " about 9000 tokens (8900 of text input, 100 in the output)."
        ),
        SIZE,
    ),
    (
        "This model's maximum prompt length is 8192 but the request contains 9000 tokens.",
        SIZE,
    ),
    ("prompt is too long: 9000 tokens > 8192 maximum", SIZE),
    ("The input token count (9000) exceeds the maximum number of tokens allowed (8192).", SIZE),
    ("The input token count is 9000 but model only supports up to 8192.", SIZE),
    ("request (9000 tokens) exceeds the available context size (8192 tokens), increase it", SIZE),
    ("the request exceeds the available context size. try increasing the context size", None),
    ("Prompt contains 9,000 tokens, too large for model with 8,192 maximum context length", SIZE),
    (
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        SIZE,
    ),
    ("the prompt is too long: it has 9000 tokens, and local/x has room for 8192; shorten", SIZE),
    ("Your input exceeds the context window of this model. Please adjust your input.", None),
    ("Input is too long for requested model.", None),
    ("Please reduce the length of the messages or completion.", None),
    ("`inputs` tokens + `max_new_tokens` must be <= 8192. Given: 9000", None),
    ("the input length exceeds the context length", None),
]
OTHERS = [
    "Rate limit reached: limit 8192 tokens per minute, requested 9000.",
    "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 9000.",
    "string too long. Expected a string with maximum length 256",
    "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens",
    "Request exceeds the maximum size",
    "tools: 600 tools exceed the maximum of 512",
]


@pytest.mark.parametrize(("message", "size"), TOO_LONG)
def test_a_prompt_that_is_too_long_is_known_by_its_message(
    message: str, size: RefusedPrompt | None
) -> None:
    assert is_context_exceeded(400, None, message)
    assert prompt_size(message) == size


@pytest.mark.parametrize("message", OTHERS)
def test_other_errors_are_not_about_the_prompt(message: str) -> None:
    assert not is_context_exceeded(400, "invalid_request_error", message)
    assert prompt_size(message) is None


def test_a_code_is_enough_and_a_rate_limit_is_none() -> None:
    assert is_context_exceeded(None, "exceed_context_size_error", "Too much.")
    assert not is_context_exceeded(429, None, "prompt is too long")


@pytest.mark.parametrize("status", [400, 413, 422])
def test_the_error_of_a_response_has_one_status_and_one_code(status: int) -> None:
    body = b'{"error": {"type": "BadRequestError", "message": "Input is too long."}}'
    problem = problem_of(status, {}, body)
    assert (problem.status, problem.code, problem.retryable) == (400, CONTEXT_EXCEEDED, False)


def test_the_error_in_a_stream_has_them_too() -> None:
    said = {"code": CONTEXT_EXCEEDED, "message": "Your input exceeds the context window."}
    problem = problem_in(said)
    assert (problem.status, problem.code, problem.retryable) == (400, CONTEXT_EXCEEDED, False)


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        (
            (
                "max_tokens is too large: 128000. This model supports at most 16384 completion"
                " tokens, whereas you provided 128000."
            ),
            OutputLimit(16384, of_model=True),
        ),
        (
            (
                "Invalid 'max_output_tokens': integer above maximum value. Expected a value <="
                " 32768, but got 128000 instead."
            ),
            OutputLimit(32768, of_model=True),
        ),
        ("`max_tokens` must be less than or equal to `8192`", OutputLimit(8192, of_model=True)),
        (
            "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
            OutputLimit(8192, of_model=True),
        ),
        (
            "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens",
            OutputLimit(64000, of_model=True),
        ),
        (
            (
                "Unable to submit request because it has a maxOutputTokens value of 128000 but the"
                " supported range is from 1 (inclusive) to 65537 (exclusive). Update the value."
            ),
            OutputLimit(65536, of_model=True),
        ),
        (
            (
                "This model's maximum context length is 4096 tokens. However, you requested 4500"
                " tokens (500 in the messages, 4000 in the completion). Please reduce the length."
            ),
            OutputLimit(3596, of_model=False),
        ),
        (
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 128000. This model's maximum"
                " context length is 32768 tokens and your request has 500 input tokens."
            ),
            OutputLimit(32268, of_model=False),
        ),
        (
            (
                "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000,"
                " decrease input length or `max_tokens` and try again"
            ),
            OutputLimit(11760, of_model=False),
        ),
        ("Invalid 'max_tokens': integer below minimum value.", None),
        ("prompt is too long: 9000 tokens > 8192 maximum", None),
    ],
)
def test_the_largest_answer_that_a_service_accepts(message: str, limit: OutputLimit | None) -> None:
    assert output_limit(message) == limit
