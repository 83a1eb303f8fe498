"""Problems of a configuration are reported with their place, line and a remedy."""

from pathlib import Path

import pytest

from windlass.gateway.config import ConfigProblem, check_config, load_config
from windlass.models import PROVIDERS

MODEL = '[models.fast]\ntarget = "openai/gpt-5-mini"\n'
HASH = "sha256:" + "0a" * 32
OTHER_HASH = "sha256:" + "0b" * 32
KEY = f'[[keys]]\nname = "web"\nhash = "{HASH}"\n'
SECRET = "sk-S3cretValue"

TOOL = """
from windlass import tool

@tool
def get_weather(city: str) -> str:
    '''The weather.'''
    return city
"""


class Checked:
    """Checks texts as the file `windlass.toml` of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def __call__(self, text: str, environ: dict[str, str] | None = None) -> list[ConfigProblem]:
        self.write("windlass.toml", text)
        return check_config(self.folder / "windlass.toml", environ or {})

    def one(self, text: str, environ: dict[str, str] | None = None) -> tuple[str, int | None, str]:
        """The place, the line and the words of the only error."""
        (problem,) = self(text, environ)
        assert problem.severity == "error"
        return problem.place, problem.line, problem.message


@pytest.fixture
def checked(tmp_path: Path) -> Checked:
    return Checked(tmp_path)


def test_a_valid_configuration_has_no_problems(checked: Checked) -> None:
    assert checked(MODEL + KEY) == []


def test_a_problem_is_one_line_with_file_place_and_message() -> None:
    assert str(ConfigProblem("models.fast", "wrong", "error", 12, "w.toml")) == (
        "w.toml:12: models.fast: wrong"
    )
    assert str(ConfigProblem("models.fast", "odd", "warning", 12, "w.toml")) == (
        "w.toml:12: warning: models.fast: odd"
    )
    assert str(ConfigProblem("", "cannot be read", file="w.toml")) == "w.toml: cannot be read"
    assert str(ConfigProblem("WINDLASS_PORT", "wrong")) == "WINDLASS_PORT: wrong"
    assert str(ConfigProblem("tools", "one\n  two\n")) == "tools: one two"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[server]\nport = \n", 2, "line 2, column 8"),
        ("[server\nport = 1\n", 1, "line 1, column 8"),
        ("port = 1\nport = 2\n", 2, "line 2"),
        ('[server]\nhost = "x', None, "at the end of the file"),
    ],
)
def test_invalid_toml_is_reported_with_line_and_column(
    checked: Checked, text: str, line: int | None, words: str
) -> None:
    place, at, message = checked.one(text)
    assert (place, at) == ("", line)
    assert message.startswith("not valid TOML at ")
    assert words in message
    assert "(at" not in message


def test_a_file_that_cannot_be_read_is_a_problem(checked: Checked) -> None:
    (problem,) = check_config(checked.folder / "none.toml", {})
    assert str(problem) == (
        f"{checked.folder / 'none.toml'}: cannot be read: No such file or directory"
    )
    (problem,) = check_config(checked.folder, {})
    assert "cannot be read: Is a directory" in str(problem)
    (checked.folder / "latin.toml").write_bytes(b'x = "\xe4"')
    (problem,) = check_config(checked.folder / "latin.toml", {})
    assert "is not UTF-8" in problem.message


@pytest.mark.parametrize("text", ["x = " + "[" * 5000, "x = " + "9" * 5000])
def test_a_file_that_breaks_the_parser_is_a_problem(checked: Checked, text: str) -> None:
    _, _, message = checked.one(text)
    assert message.startswith("not valid TOML")


@pytest.mark.parametrize(
    ("text", "place", "line", "meant"),
    [
        (f"{MODEL}[sever]\n", "sever", 3, "server"),
        (f"{MODEL}[server]\nprot = 1\n", "server.prot", 4, "port"),
        (f"{MODEL}tolls = []\n", "models.fast.tolls", 3, "tools"),
        (f'{MODEL}api_key = "{SECRET}"\n', "models.fast.api_key", 3, "api_key_env"),
        (f"{MODEL}mod = 'auto'\n", "models.fast.mod", 3, "mode"),
        (f"{MODEL}[tools]\nmodule = []\n", "tools.module", 4, "modules"),
        (f"{MODEL}[mcp.x]\nurl = 'http://x'\nenvs = {{}}\n", "mcp.x.envs", 5, "env"),
        (f"{MODEL}{KEY}model = []\n", "keys[0].model", 6, "models"),
        (f"{MODEL}[limits]\nmax_body = 1\n", "limits.max_body", 4, "max_body_bytes"),
    ],
)
def test_an_unknown_setting_is_an_error_with_a_suggestion(
    checked: Checked, text: str, place: str, line: int, meant: str
) -> None:
    said = f"unknown setting (did you mean {meant!r}?)"
    assert checked.one(text) == (place, line, said)


def test_an_error_without_a_suggestion_lists_all_names(checked: Checked) -> None:
    _, _, message = checked.one(f"{MODEL}[tools]\nxyz = 1\n")
    assert message == "unknown setting (known: executor, modules, prompts)"


def test_a_table_cannot_set_the_name_of_its_model(checked: Checked) -> None:
    place, _, message = checked.one(f'{MODEL}name = "other"\n')
    assert (place, message.split(" (")[0]) == ("models.fast.name", "unknown setting")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('server.port = "8080"', "a whole number from 0 to 65535, not the string '8080'"),
        ("server.port = 65536", "a whole number from 0 to 65535, not 65536"),
        ("server.port = 9223372036854775808", "from 0 to 65535, not 9223372036854775808"),
        ("server.port = true", "a whole number from 0 to 65535, not true"),
        ("server.port = 8080.0", "a whole number from 0 to 65535, not 8080.0"),
        ('server.host = ""', "a non-empty string, not the string ''"),
        ("server.host = 2026-01-01", "a non-empty string, not a date or a time"),
        ('server.access_log = "yes"', "true or false, not the string 'yes'"),
        ("server.heartbeat = 0", "a number of seconds above 0, at most one year, not 0"),
        ("server.keep_alive_timeout = 0", "a number of seconds above 0, at most one year, not 0"),
        ("limits.header_timeout = 0", "a number of seconds above 0, at most one year, not 0"),
        ("limits.max_connections_per_address = 0", "a whole number, 1 or more, not 0"),
        ("server.heartbeat = nan", "a number of seconds above 0, at most one year, not nan"),
        ("server.heartbeat = inf", "a number of seconds above 0, at most one year, not inf"),
        ("server.shutdown_timeout = -1", "0 or more, at most one year, not -1"),
        ('server.cors_origins = "*"', "a list of strings, not the string '*'"),
        ("server.cors_origins = ['*', 3]", "a list of strings, not ['*', 3]"),
        ("models.fast.max_rounds = -1", "a whole number, 0 or more, not -1"),
        ("models.fast.max_parallel = 0", "a whole number, 1 or more, not 0"),
        ("models.fast.max_running = {}", "a whole number, 1 or more, not a table"),
        ("models.fast.on_limit = 'stop'", "'final_answer' or 'error', not the string 'stop'"),
        ("models.fast.mode = 'magic'", "'auto', 'native' or 'emulated', not 'magic'"),
        ("models.fast.mode = []", "'auto', 'native' or 'emulated', not []"),
        ("models.fast.headers = 3", "a table of strings, not a number"),
        ("models.fast.tools = 'get_weather'", "a list of strings, not the string 'get_weather'"),
        ("limits.max_tools = 0", "a whole number, 1 or more, not 0"),
        ("limits.max_queued = -1", "a whole number, 0 or more, not -1"),
        ("tools.modules = 'tools.py'", "a list of strings, not the string 'tools.py'"),
    ],
)
def test_an_error_names_the_expected_and_the_actual_value(
    checked: Checked, setting: str, said: str
) -> None:
    place, line, message = checked.one(f'models.fast.target = "openai/x"\n{setting}\n')
    assert (place, line) == (setting.partition(" ")[0], 2)
    assert message.endswith(said)
    assert "must be" in message


@pytest.mark.parametrize(
    ("text", "place", "form"),
    [
        ("server = 3\n", "server", "[server]"),
        ("models = 3\n", "models", "[models.NAME]"),
        ("[models]\ntarget = 'openai/x'\n", "models.target", "[models.NAME]"),
        ("[keys]\nname = 'web'\n", "keys", "[[keys]]"),
        ("[[server]]\n", "server", "[server]"),
    ],
)
def test_an_error_shows_the_form_of_a_section(
    checked: Checked, text: str, place: str, form: str
) -> None:
    problem = next(each for each in checked(text) if each.place == place)
    assert form in problem.message
    assert problem.line is not None


def test_a_configuration_without_models_is_an_error(checked: Checked) -> None:
    place, _, message = checked.one("[server]\n")
    assert place == ""
    assert "[models.NAME]" in message


@pytest.mark.parametrize("name", ["", "a\\nb", "\\u0000"])
def test_the_name_of_a_model_is_not_empty_and_has_no_control_characters(
    checked: Checked, name: str
) -> None:
    place, line, message = checked.one(f'[models."{name}"]\ntarget = "openai/x"\n')
    assert place.startswith('models."')
    assert (line, "\n" in place) == (1, False)
    assert message == "a name must not be empty or contain control characters"


def test_a_model_needs_a_target(checked: Checked) -> None:
    assert checked.one("[models.fast]\n") == ("models.fast", 1, "target is missing")


@pytest.mark.parametrize("target", ["gpt-5", "openai/", "/gpt-5", "openai/a\\tb"])
def test_a_target_is_a_provider_and_a_model(checked: Checked, target: str) -> None:
    place, line, message = checked.one(f'[models.fast]\ntarget = "{target}"\n')
    assert (place, line) == ("models.fast.target", 2)
    assert message.startswith("must be provider/model, such as 'openai/gpt-5-mini', not ")


def test_an_unknown_provider_is_an_error_with_a_suggestion(checked: Checked) -> None:
    *_, message = checked.one('[models.fast]\ntarget = "gemeni/flash"\n')
    assert message == "unknown provider 'gemeni' (did you mean 'gemini'?)"


def test_a_provider_is_known_when_the_models_know_it(
    checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '[models.fast]\ntarget = "galaxy/x"\n'
    assert "unknown provider 'galaxy'" in checked.one(text)[2]
    monkeypatch.setitem(PROVIDERS, "galaxy", ("windlass.models.galaxy", "GalaxyModel"))
    assert checked(text) == []


def test_a_key_that_is_not_in_the_environment_is_a_warning_that_names_the_variable(
    checked: Checked,
) -> None:
    text = f'{MODEL}api_key_env = "OPENAI_API_KEY"\n'
    (problem,) = checked(text)
    assert (problem.severity, problem.line) == ("warning", 3)
    assert problem.message == "the environment variable OPENAI_API_KEY is not set"
    assert checked(text, {"OPENAI_API_KEY": SECRET}) == []


@pytest.mark.parametrize(
    "text",
    [
        f'{MODEL}api_key_env = "{SECRET}"\n',
        f'{MODEL}api_key_env = ["{SECRET}"]\n',
        f'{MODEL}base_url = "ftp://me:{SECRET}@example.com"\n',
        f'{MODEL}base_url = ["{SECRET}"]\n',
        f'{MODEL}headers = {{ Authorization = "{SECRET}\\n" }}\n',
        f'{MODEL}headers = {{ Authorization = ["{SECRET}"] }}\n',
        f'{MODEL}headers = "{SECRET}"\n',
        f'{MODEL}[mcp.x]\nurl = "{SECRET}"\n',
        f'{MODEL}[mcp.x]\nurl = "http://x"\nenv = "{SECRET}"\n',
        f'{MODEL}[mcp.x]\ncommand = {{ x = "{SECRET}" }}\n',
        f'{MODEL}[[keys]]\nname = "web"\nhash = "{SECRET}"\n',
        f'{MODEL}[[keys]]\nname = "web"\nhash = ["{SECRET}"]\n',
        f'{MODEL}[[keys]]\nname = "web"\nkey = "{SECRET}"\nhash = "{HASH}"\n',
        (
            f'{MODEL}[[keys]]\nname = "a"\nhash = "{SECRET}"\n'
            f'[[keys]]\nname = "b"\nhash = "{SECRET}"\n'
        ),
    ],
)
def test_an_error_never_repeats_a_secret_in_the_wrong_setting(checked: Checked, text: str) -> None:
    problems = checked(text)
    assert problems
    assert SECRET not in "".join(map(repr, problems))


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "ftp://x", "http://", "http://x:99999", "http://x/a b", "http://x/a\\tb"],
)
def test_an_address_begins_with_http(checked: Checked, url: str) -> None:
    place, line, message = checked.one(f'{MODEL}base_url = "{url}"\n')
    assert (place, line) == ("models.fast.base_url", 3)
    assert message == "must be a URL that starts with http:// or https://"


@pytest.mark.parametrize("header", ['"X Team" = "x"', '"" = "x"', '"X:" = "x"', 'X = "a\\r\\nb"'])
def test_headers_are_valid(checked: Checked, header: str) -> None:
    place, line, _ = checked.one(f"{MODEL}[models.fast.headers]\n{header}\n")
    assert place.startswith("models.fast.headers.")
    assert line == 4


@pytest.mark.parametrize("origin", ["example.com", "https://x/", "https://x/chat", "https://a@x"])
def test_an_origin_has_a_scheme_and_no_path(checked: Checked, origin: str) -> None:
    place, line, _ = checked.one(f'{MODEL}[server]\ncors_origins = ["*", "{origin}"]\n')
    assert (place, line) == ("server.cors_origins[1]", 4)


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "http://localhost", "[::1]", "a b", "-x"])
def test_a_host_is_an_address_or_a_name(checked: Checked, host: str) -> None:
    place, line, message = checked.one(f'{MODEL}[server]\nhost = "{host}"\n')
    assert (place, line) == ("server.host", 4)
    assert message.startswith("must be an IP address or a host name")
    (problem,) = check_config(None, {"WINDLASS_HOST": host})
    assert problem.place == "WINDLASS_HOST"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "gateway.example.com"])
def test_without_keys_the_host_must_be_a_loopback_address(checked: Checked, host: str) -> None:
    text = f'{MODEL}[server]\nhost = "{host}"\n'
    place, line, message = checked.one(text)
    assert (place, line) == ("server.host", 4)
    assert "windlass keys new" in message
    assert checked(text + KEY) == []
    assert checked.one(MODEL, {"WINDLASS_HOST": host})[0] == "WINDLASS_HOST"
    file = checked.folder / "windlass.toml"
    with pytest.raises(ValueError, match=r"^--host: without \[\[keys\]\]"):
        load_config(file, {}, host=host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST"])
def test_a_loopback_address_needs_no_keys(checked: Checked, host: str) -> None:
    assert checked(f'{MODEL}[server]\nhost = "{host}"\n') == []


@pytest.mark.parametrize("hash", ["", "sha256:", "sha256:" + "A" * 64, "wl_x", HASH + "\\n"])
def test_an_error_about_a_hash_names_the_command_that_makes_one(
    checked: Checked, hash: str
) -> None:
    place, line, message = checked.one(f'{MODEL}[[keys]]\nname = "web"\nhash = "{hash}"\n')
    assert (place, line) == ("keys[0].hash", 5)
    assert not hash or "windlass keys new" in message


def test_keys_have_a_name_and_a_hash(checked: Checked) -> None:
    problems = checked(f"{MODEL}[[keys]]\n{KEY}")
    assert [(each.place, each.line, each.message) for each in problems] == [
        ("keys[0]", 3, "name is missing"),
        ("keys[0]", 3, "hash is missing"),
    ]
    assert checked.one(f'{MODEL}[[keys]]\nname = "a\\nb"\nhash = "{HASH}"\n')[0] == "keys[0].name"


def test_two_keys_of_one_name_or_one_hash_are_an_error(checked: Checked) -> None:
    same_name = f'{MODEL}{KEY}[[keys]]\nname = "web"\nhash = "{OTHER_HASH}"\n'
    assert checked.one(same_name) == ("keys[1].name", 7, "another key has this name")
    same_hash = f'{MODEL}{KEY}[[keys]]\nname = "app"\nhash = "{HASH}"\n'
    assert checked.one(same_hash) == ("keys[1].hash", 8, "another key has this hash")


def test_an_unknown_model_of_a_key_is_an_error_with_a_suggestion(checked: Checked) -> None:
    said = "unknown model 'fats' (did you mean 'fast'?)"
    text = f'{MODEL}{KEY}models = ["fast", "fats"]\n'
    assert checked.one(text) == ("keys[0].models[1]", 6, said)
    wrong = "models = 3\nkeys = [{ name = 'a', hash = 'b', models = ['c'] }]\n"
    assert "keys[0].models[0]" in [each.place for each in checked(wrong)]


@pytest.mark.parametrize("given", ["", "command = 'x'\nurl = 'http://x'\n"])
def test_an_mcp_server_has_a_command_or_a_url(checked: Checked, given: str) -> None:
    said = "set either command or url"
    assert checked.one(f"{MODEL}[mcp.files]\n{given}") == ("mcp.files", 3, said)


def test_an_unknown_tool_is_an_error_with_a_suggestion(checked: Checked) -> None:
    checked.write("tools.py", TOOL)
    text = f'{MODEL}tools = [\n"get_weather",\n"get_wether",\n]\n[tools]\nmodules = ["tools.py"]\n'
    assert checked.one(text) == (
        "models.fast.tools[1]",
        3,
        "unknown tool 'get_wether' (did you mean 'get_weather'?)",
    )


def test_an_unknown_host_tool_is_an_error_with_a_suggestion(checked: Checked) -> None:
    checked.write("tools.py", TOOL)
    text = f'{MODEL}[tools]\nmodules = ["tools.py"]\n[workers]\nhost_tools = ["get_wether"]\n'
    assert checked.one(text) == (
        "workers.host_tools[0]",
        6,
        "unknown tool 'get_wether' (did you mean 'get_weather'?)",
    )


def test_a_tool_that_is_named_twice_is_an_error(checked: Checked) -> None:
    checked.write("tools.py", TOOL)
    text = f"{MODEL}tools = ['get_weather', 'get_weather']\n[tools]\nmodules = ['tools.py']\n"
    assert checked.one(text)[2] == "lists 'get_weather' twice"


def test_tools_without_function_calling_are_a_warning(checked: Checked) -> None:
    checked.write("tools.py", TOOL)
    text = f"{MODEL}function_calling = false\ntools = ['get_weather']\n"
    (problem,) = checked(f"{text}[tools]\nmodules = ['tools.py']\n")
    assert (problem.severity, problem.place) == ("warning", "models.fast.tools")


def test_a_module_that_fails_is_an_error_with_its_exception_and_line(
    checked: Checked,
) -> None:
    checked.write("tools.py", "import os\n\nHOME = os.environ['NO_SUCH_HOME']\n")
    text = f'{MODEL}tools = ["get_weather"]\n[tools]\nmodules = [\n"tools.py",\n]\n'
    said = "'tools.py', line 3: KeyError: 'NO_SUCH_HOME'"
    assert checked.one(text) == ("tools.modules[0]", 5, said)


def test_a_tool_in_two_modules_is_an_error_that_names_both(checked: Checked) -> None:
    checked.write("one.py", TOOL)
    checked.write("two.py", TOOL)
    text = f'{MODEL}tools = ["get_weather"]\n[tools]\nmodules = ["one.py", "two.py"]\n'
    said = "two modules have a tool named 'get_weather': 'one.py' and 'two.py'"
    assert checked.one(text) == ("tools.modules[1]", 5, said)


def test_every_invalid_function_calling_variable_is_an_error(checked: Checked) -> None:
    broken = {"FUNCTION_CALLING_MODE": "magic", "FC_UI_TIMEOUT_MS": "soon", "PATH": "/bin"}
    problems = checked(MODEL, broken)
    assert [each.place for each in problems] == ["environment", "environment"]
    assert "FUNCTION_CALLING_MODE must be" in str(problems[0])
    assert "FC_UI_TIMEOUT_MS must be" in str(problems[1])
    assert check_config(None, broken) == problems


@pytest.mark.parametrize(
    ("environ", "place", "said"),
    [
        ({"WINDLASS_PORT": "http"}, "WINDLASS_PORT", "from 0 to 65535, not the string 'http'"),
        ({"WINDLASS_PORT": "70000"}, "WINDLASS_PORT", "from 0 to 65535, not 70000"),
        ({"WINDLASS_PORT": "9" * 5000}, "WINDLASS_PORT", "9999"),
        ({"WINDLASS_MODEL": "gpt-5"}, "WINDLASS_MODEL", "must be provider/model"),
        ({"WINDLASS_MODEL": "fast=gpt-5"}, "WINDLASS_MODEL", "must be provider/model"),
        ({"WINDLASS_MODEL": "=openai/x"}, "WINDLASS_MODEL", "must not be empty"),
        ({"WINDLASS_MODEL": "a=openai/x,a=openai/y"}, "WINDLASS_MODEL", "two models are named 'a'"),
        ({"WINDLASS_MODEL": "open/x"}, "WINDLASS_MODEL", "did you mean 'openai'?"),
        ({"WINDLASS_MODEL": "openai/x", "WINDLASS_TOOLS": "no.py"}, "WINDLASS_TOOLS", "no file"),
    ],
)
def test_an_invalid_variable_is_an_error_with_its_name(
    environ: dict[str, str], place: str, said: str
) -> None:
    (problem,) = check_config(None, environ)
    assert (problem.place, problem.severity, problem.line) == (place, "error", None)
    assert said in problem.message
    assert "\n" not in str(problem)


def test_tools_in_the_environment_without_a_model_are_a_warning(checked: Checked) -> None:
    checked.write("tools.py", TOOL)
    (problem,) = check_config(None, {"WINDLASS_TOOLS": str(checked.folder / "tools.py")})
    assert problem.severity == "warning"
    assert "WINDLASS_MODEL" in problem.message


LAYOUT = '''# a comment
models.fast.target = "openai/x"

models.fast.system = """
[server]
port = "not a setting"
"""
models.fast.nothing = 1
keys = [
  { name = "a", hash = "x" },
]

  [ server ]   # indented
"port" = "x"
[limits]
max_tools = "x"
'''


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_numbers_are_right_in_every_style_of_toml(checked: Checked, newline: str) -> None:
    file = checked.folder / "layout.toml"
    file.write_bytes(LAYOUT.replace("\n", newline).encode())
    assert [(each.line, each.place) for each in check_config(file, {})] == [
        (8, "models.fast.nothing"),
        (9, "keys[0].hash"),
        (14, "server.port"),
        (16, "limits.max_tools"),
    ]


# Budgets.

PRICES = "prices = { input = 0.25, output = 2, cached_input = 0.025 }\n"


def test_budgets_with_prices_are_valid(checked: Checked) -> None:
    text = MODEL + PRICES + 'max_tokens_total = 1000\nmax_cost = "0.5"\n' + KEY
    text += "max_tokens_per_day = 5\nmax_tokens_per_month = 5\nmax_cost_per_day = 0.1\n"
    assert checked(text + "max_cost_per_month = 3\n") == []
    config = load_config(checked.folder / "windlass.toml", {})
    price, [key] = config.models["fast"].prices, config.keys
    assert price is not None
    assert [str(each) for each in (price.input, price.output, price.cached_input)] == [
        "0.25",
        "2",
        "0.025",
    ]
    assert (str(config.models["fast"].max_cost), str(key.max_cost_per_day)) == ("0.5", "0.1")


@pytest.mark.parametrize(
    ("setting", "place", "message"),
    [
        ("max_cost = 1", "max_cost", "needs the model's prices: set prices = { input"),
        ("max_cost = 0", "max_cost", "must be a number above 0, not 0"),
        ("max_tokens_total = 0", "max_tokens_total", "must be a whole number, 1 or more, not 0"),
        ("prices = 3", "prices", "must be a table with input, output, cached_input, not 3"),
        ("prices = { input = 1 }", "prices", "the price of output is missing"),
        ("prices = { input = -1, output = 1 }", "prices", "the price of input must be 0 or more"),
        ("prices = { input = 1, out = 1 }", "prices", "a price has no field 'out'"),
    ],
)
def test_a_wrong_budget_of_a_model_is_named(
    checked: Checked, setting: str, place: str, message: str
) -> None:
    problems = checked(f"{MODEL}{setting}\n")
    assert (problems[0].place, problems[0].line) == (f"models.fast.{place}", 3)
    assert message in problems[0].message


def test_a_budget_of_cost_of_a_key_needs_the_prices_of_its_models(checked: Checked) -> None:
    other = '[models.other]\ntarget = "openai/gpt-5"\n'
    limit = "max_cost_per_day = 1\n"
    place, line, message = checked.one(MODEL + PRICES + other + KEY + limit)
    assert (place.endswith("max_cost_per_day"), line) == (True, 9)
    assert message == "needs the prices of every model of the key: set models.other.prices"
    assert checked(MODEL + PRICES + other + KEY + limit + 'models = ["fast"]\n') == []
