"""The pure parts: targets, names, results, questions."""

import subprocess
import sys
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from windlass import ConfigError, FunctionResponse, InlineData, ToolError
from windlass.tool.declarations import check_name
from windlass.toolsets.mcp.calls import elicit_call, elicit_result, value_of
from windlass.toolsets.mcp.options import original, outer_name, readable_prefix, server_from, valid

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)


@given(NAMES)
def test_every_converted_name_can_be_converted_back(name: str) -> None:
    assert original(valid(name)) == name


@given(NAMES, st.sampled_from(["", "files", "a_b"]))
def test_every_name_is_one_that_providers_take(name: str, prefix: str) -> None:
    assert check_name(outer_name(prefix, name))


@given(NAMES, NAMES)
def test_two_names_are_never_converted_to_the_same_name(first: str, second: str) -> None:
    if first != second:
        assert outer_name("files", first) != outer_name("files", second)


def test_converted_names_stay_readable() -> None:
    assert outer_name("files", "read_file") == "files__read_file"
    assert outer_name("", "get-sum") == "get-sum"
    assert outer_name("", "1st") == "_1st"
    assert valid("a.b/c") == "a_x2e_b_x2f_c"


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("mcp-servers/everything", "everything"),
        ("GitHub MCP Server", "github_mcp_server"),
        ("  ", "mcp"),
        ("42", "mcp_42"),
        ("x" * 80, "x" * 24),
    ],
)
def test_the_name_of_a_server_becomes_a_short_prefix(name: str, prefix: str) -> None:
    assert readable_prefix(name) == prefix


def test_a_target_is_a_command_or_an_address() -> None:
    assert server_from("npx -y 'some server'").command == ("npx", "-y", "some server")
    assert server_from(["python", "a b.py"]).command == ("python", "a b.py")
    assert server_from("HTTPS://example.com/mcp").url == "HTTPS://example.com/mcp"


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("", {}, "no server: pass a command"),
        ("  ", {}, "no server: pass a command"),
        ([], {}, "no server: pass a command"),
        ("run 'it", {}, "cannot parse the command: No closing quotation"),
        ("ftp://example.com", {}, "must start with http:// or https://"),
        ("http://", {}, "have a host"),
        ("run", {"timeout": 0}, "timeout must be a number of seconds above 0, not 0"),
        ("run", {"longest": True}, "longest must be a number of seconds"),
        ("run", {"on_change": "ask"}, "on_change must be one of 'approve', 'refuse', 'allow'"),
        ("run", {"protocol": "2024-11-05"}, "protocol must be one of 'auto'"),
        ("run", {"approve": "add"}, "approve must be True, False or a list"),
        ("run", {"headers": {"a": "b"}}, "headers is an option for an address"),
        ("http://x", {"env": {"A": "b"}}, "env is an option for a command"),
        ("run", {"tiemout": 3}, "unknown option tiemout; supported: approve, auth"),
    ],
)
def test_invalid_options_are_reported_with_a_message(target: Any, options: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=f"mcp: .*{said}"):
        windlass.mcp(target, **options)


def test_only_the_label_of_a_server_is_shown() -> None:
    local = server_from("/opt/bin/tool --key SECRET", env={"A": "SECRET"})
    remote = server_from("https://me:SECRET@example.com/SECRET", headers={"A": "SECRET"})
    assert (repr(local), repr(remote)) == ("ServerOptions('tool')", "ServerOptions('example.com')")


@pytest.mark.process
def test_the_sdk_is_loaded_with_the_first_toolset_or_an_error_names_it() -> None:
    program = """
import sys, windlass
assert windlass.mcp and "mcp" not in sys.modules, "the SDK is imported"
sys.modules["mcp"] = sys.modules["mcp_types"] = None
try:
    windlass.mcp("run")
except windlass.ConfigError as error:
    assert "pip install 'windlass[mcp]'" in str(error), error
else:
    raise AssertionError("nothing was missed")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def result(*content: Any, **fields: Any) -> types.CallToolResult:
    return types.CallToolResult(content=list(content), **fields)


TEXT = types.TextContent(text="a")
IMAGE = types.ImageContent(data="cG5n", mime_type="image/png")
PNG = InlineData(b"png", "image/png")


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (result(), ""),
        (result(TEXT), "a"),
        (result(TEXT, TEXT), ["a", "a"]),
        (result(IMAGE), PNG),
        (result(TEXT, IMAGE), ["a", PNG]),
        (result(TEXT, structured_content={"n": 1}), {"n": 1}),
        (
            result(IMAGE, structured_content={"n": 1}),
            FunctionResponse("", {"output": {"n": 1}}, parts=(PNG,)),
        ),
        (
            result(types.ResourceLink(uri="file:///a", name="a", mime_type="text/plain")),
            {"uri": "file:///a", "name": "a", "mimeType": "text/plain"},
        ),
        (
            result(
                types.EmbeddedResource(resource=types.TextResourceContents(uri="x:/a", text="b"))
            ),
            {"uri": "x:/a", "text": "b"},
        ),
        (
            result(
                types.EmbeddedResource(resource=types.BlobResourceContents(uri="x:/a", blob="cG5n"))
            ),
            InlineData(b"png", "application/octet-stream"),
        ),
    ],
)
def test_every_kind_of_content_has_a_value(given: types.CallToolResult, value: object) -> None:
    assert value_of(given) == value


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (result(TEXT, TEXT, is_error=True), "a\na"),
        (result(is_error=True), "the tool failed without a message"),
        (
            result(types.ImageContent(data="?", mime_type="image/png")),
            "the tool returned image/png data that is not valid base64",
        ),
    ],
)
def test_a_failure_is_an_error_for_the_model(given: types.CallToolResult, said: str) -> None:
    with pytest.raises(ToolError) as raised:
        value_of(given)
    assert raised.value.message == said


SCHEMA = {
    "type": "object",
    "properties": {"seats": {"type": "integer", "default": 2}, "name": {"type": "string"}},
    "required": ["name"],
}
FORM = types.ElicitRequestFormParams(message="How many?", requested_schema=SCHEMA)
LINK = types.ElicitRequestURLParams(message="Sign in", url="https://x.example", elicitation_id="1")


@pytest.mark.parametrize(
    ("params", "approved", "arguments", "action", "content"),
    [
        (FORM, False, {"name": "Ada"}, "decline", None),
        (FORM, True, {"name": "Ada"}, "accept", {"seats": 2, "name": "Ada"}),
        (FORM, True, {"name": "Ada", "seats": 5}, "accept", {"seats": 5, "name": "Ada"}),
        (FORM, True, {"message": "How many?", "answer": {"name": "B"}}, "accept",
         {"seats": 2, "name": "B"}),
        (FORM, True, None, "decline", None),  # a name is required, and none is given
        (FORM, True, {"name": 7}, "decline", None),
        (LINK, True, None, "accept", None),
        (LINK, False, None, "decline", None),
    ],
)  # fmt: skip
def test_a_decision_is_the_answer_to_a_question(
    params: Any, approved: bool, arguments: Any, action: str, content: Any
) -> None:
    answer = elicit_result(params, approved, arguments)
    assert (answer.action, answer.content) == (action, content)


def test_a_link_is_shown_to_the_approver() -> None:
    question = elicit_call("books", LINK)
    assert question.name == "books:question"
    assert question.arguments == {"message": "Sign in", "url": "https://x.example"}
