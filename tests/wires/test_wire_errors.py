"""Errors in the form that OpenAI's clients read."""

import pytest

from windlass.wires.errors import Problem, error_fields

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    418: "invalid_request_error",
    429: "rate_limit_error",
    499: "invalid_request_error",
    500: "server_error",
    503: "server_error",
}


@pytest.mark.parametrize(("status", "kind"), TYPES.items())
def test_a_status_has_a_type_that_the_clients_know(status: int, kind: str) -> None:
    assert error_fields(Problem(status, "m"))["type"] == kind
