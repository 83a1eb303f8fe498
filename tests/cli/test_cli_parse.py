"""`windlass parse`, as a program and in process."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from windlass.cli import COMMANDS, main
from windlass.emulation.parser import FORMATS

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
BROKEN = '<tool_call>\n{"name": "get_weather", "arguments": {"city": Paris"}}\n</tool_call>'
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"days": {"type": "integer"}}},
        },
    }
]


class Program:
    """Runs the command in process: text in, exit code, stdout and stderr out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> None:
        self._monkeypatch, self._captured = monkeypatch, capfdbinary

    def __call__(self, *argv: str, stdin: str | bytes = "") -> tuple[int, str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        self._captured.readouterr()
        code = main(argv)
        sys.stdout.flush()
        out, err = self._captured.readouterr()
        return code, out.decode(), err.decode()

    def lines(self, *argv: str, stdin: str | bytes) -> tuple[int, list[dict[str, Any]]]:
        code, out, _ = self(*argv, stdin=stdin)
        return code, [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Program:
    return Program(monkeypatch, capfdbinary)


def jsonl(*lines: Any) -> str:
    return "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)


def test_a_text_with_calls_is_parsed_to_json(program: Program) -> None:
    code, out, _ = program("parse", stdin=f"Let me look: {CALL}")
    assert code == 0
    answer = json.loads(out)
    assert list(answer) == ["content", "calls"]
    assert answer["content"].strip() == "Let me look:"
    assert answer["calls"] == [{"name": "get_weather", "arguments": {"city": "Paris"}}]


def test_text_without_calls_is_unchanged(program: Program) -> None:
    text = "Grüße <b>an</b> alle\r\n{nothing}\n"
    code, out, _ = program("parse", stdin=text)
    assert (code, json.loads(out)) == (0, {"content": text, "calls": []})


def test_tools_from_a_file_decide_about_names_and_types(program: Program, tmp_path: Path) -> None:
    text = "<function=get_weather>\n<parameter=days>\n3\n</parameter>\n</function>"
    for number, value in enumerate((TOOLS, {"tools": TOOLS}, TOOLS[0], [TOOLS[0]["function"]])):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(value))
        _, out, _ = program("parse", "--tools", str(file), stdin=text)
        assert json.loads(out)["calls"] == [{"name": "get_weather", "arguments": {"days": 3}}]
        other = CALL.replace("get_weather", "rm_rf")
        _, out, _ = program("parse", "--tools", str(file), stdin=other)
        assert json.loads(out) == {"content": other, "calls": []}


def test_a_format_can_be_named(program: Program) -> None:
    text = 'Action: get_weather\nAction Input: {"city": "Paris"}'
    _, out, _ = program("parse", "--format", "react", stdin=text)
    assert json.loads(out)["calls"] == [{"name": "get_weather", "arguments": {"city": "Paris"}}]
    code, out, err = program("parse", "--format", "nonsense", stdin=text)
    assert (code, out) == (2, "")
    assert "unknown format 'nonsense'" in err
    _, _, err = program("parse", "--format", "hermes-jsn", stdin=text)
    assert "unknown format 'hermes-jsn' (did you mean 'hermes-json'?)" in err


def test_all_formats_are_listed(program: Program) -> None:
    code, out, _ = program("parse", "--list-formats")
    assert (code, out.splitlines()) == (0, list(FORMATS))


def test_lines_are_answered_one_by_one(program: Program) -> None:
    stdin = jsonl(
        {"id": 7, "text": f"a {CALL}"},
        {"text": "plain"},
        "",
        {"id": "react", "text": "Action: f\nAction Input: {}", "format": "react"},
        {"id": None, "text": CALL, "tools": TOOLS},
        {"id": "other", "text": CALL.replace("get_weather", "f"), "tools": TOOLS, "format": None},
        {"id": "none", "text": CALL, "tools": []},
    )
    code, answers = program.lines("parse", "--jsonl", stdin=stdin)
    assert code == 0
    assert all(list(answer) == ["id", "content", "calls", "errors"] for answer in answers)
    assert [answer["id"] for answer in answers] == [7, None, "react", None, "other", "none"]
    assert [[c["name"] for c in answer["calls"]] for answer in answers] == [
        ["get_weather"],
        [],
        ["f"],
        ["get_weather"],
        [],
        ["get_weather"],
    ]
    assert answers[1]["content"] == "plain"
    assert all(answer["errors"] == [] for answer in answers)


def test_a_line_that_cannot_be_read_gets_its_error_and_the_rest_continue(program: Program) -> None:
    stdin = jsonl(
        "not json",
        "[1]",
        {"id": 3},
        {"id": 4, "text": "x", "format": "nonsense"},
        {"id": 5, "text": "x", "tools": ["f"]},
        {"id": 6, "text": "x", "tools": [{"no": "tool"}]},
        {"id": 7, "text": CALL},
    ).encode()
    code, answers = program.lines("parse", "--jsonl", stdin=b"\xff\xfe\n" + stdin)
    assert code == 1
    assert [answer["id"] for answer in answers] == [None, None, None, 3, 4, 5, 6, 7]
    said = [answer["errors"][0] for answer in answers[:-1]]
    assert [error.split(":")[0] for error in said] == [f"line {n}" for n in range(1, 8)]
    assert "not valid JSON" in said[0]
    assert "not a JSON object" in said[2]
    assert "'text' is missing" in said[3]
    assert "unknown format" in said[4]
    assert "not a tool" in said[6]
    assert all(answer["content"] == "" and answer["calls"] == [] for answer in answers[:-1])
    assert answers[-1]["calls"][0]["name"] == "get_weather"


def test_the_tools_of_the_command_are_those_of_every_line_without_its_own(
    program: Program, tmp_path: Path
) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(TOOLS))
    line = {"text": CALL.replace("get_weather", "f")}
    own = {**line, "tools": [{"name": "f"}]}
    _, answers = program.lines("parse", "--jsonl", "--tools", str(file), stdin=jsonl(line, own))
    assert [len(answer["calls"]) for answer in answers] == [0, 1]


def test_a_call_that_cannot_be_read_is_an_error_and_no_call(program: Program) -> None:
    _, out, _ = program("parse", stdin=BROKEN)
    answer = json.loads(out)
    assert answer["calls"] == []
    assert answer["errors"][0].startswith("get_weather: the arguments")
    code, answers = program.lines("parse", "--jsonl", stdin=jsonl({"text": BROKEN}))
    assert (code, answers[0]["calls"], len(answers[0]["errors"])) == (0, [], 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot read"), ("{", "is not valid JSON"), ("[1]", "tools must be")],
)
def test_a_file_of_tools_that_cannot_be_used_is_refused(
    program: Program, tmp_path: Path, content: str | None, said: str
) -> None:
    file = tmp_path / "tools.json"
    if content is not None:
        file.write_text(content)
    code, _, err = program("parse", "--tools", str(file))
    assert code == 2
    assert said in err


def test_wrong_usage_exits_with_2(program: Program) -> None:
    assert program()[0] == 2
    for argv in (["--nonsense"], ["nonsense"], ["parse", "--nonsense"]):
        with pytest.raises(SystemExit) as caught:
            main(argv)
        assert caught.value.code == 2


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["parse", "--help"])
    assert "windlass parse --jsonl" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


@pytest.mark.process
def test_each_line_is_answered_before_the_next_is_asked() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "windlass", "parse", "--jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(3):
            process.stdin.write(jsonl({"id": number, "text": CALL}).encode())
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == number
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.process
def test_a_closed_stdout_is_not_a_failure() -> None:
    many = jsonl(*[{"text": "x" * 1000}] * 500)
    with subprocess.Popen(
        [sys.executable, "-m", "windlass", "parse", "--jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        try:
            process.stdin.write(many.encode())
            process.stdin.close()
        except BrokenPipeError:
            pass
        assert process.stderr.read() == b""
        assert process.wait() == 1


@pytest.mark.process
def test_other_commands_are_not_loaded() -> None:
    code = (
        "import sys, windlass.cli; print(sorted(m for m in sys.modules"
        " if m.startswith('windlass.cli.') or m == 'windlass.emulation.parser'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
