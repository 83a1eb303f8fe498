"""Runs `windlass serve` as a process that tests kill and restart, on one port and one log."""

from pathlib import Path

from tests.crash.forks import ForkedProcess, Forks
from tests.support.ports import free_port

CONFIG = """\
[server]
port = {port}
access_log = false
shutdown_timeout = 0.1

[models.m]
target = "openai/gpt-test"
base_url = "{base_url}"
api_key_env = "WINDLASS_CRASH_KEY"
mode = "native"
{tools}
[tools]
modules = ["{modules}"]

[runs]
{runs}
"""
TOOLS = Path(__file__).with_name("ledger_tools.py")
ALL_TOOLS = 'tools = ["look", "read", "pay", "sign", "book", "launch", "erase"]\n'
IN_A_FILE = 'path = "runs.db"'


class GatewayProcess(ForkedProcess):
    """The home of `forks` has its configuration, its runs and its output."""

    def __init__(
        self,
        forks: Forks,
        base_url: str,
        *,
        name: str = "gateway",
        tools: str = ALL_TOOLS,
        runs: str = IN_A_FILE,
        processes: int = 1,
    ) -> None:
        """`tools` and `runs` are lines for the configuration of the model and of `[runs]`."""
        port = free_port()
        config = forks.home / f"{name}.toml"
        config.write_text(
            CONFIG.format(port=port, base_url=base_url, tools=tools, runs=runs, modules=TOOLS)
        )
        arguments = ["serve", "--config", str(config), "--log-format", "json"]
        arguments += ["--processes", str(processes)]
        super().__init__(forks, name, arguments, b"Windlass listens on ")
        self.url = f"http://127.0.0.1:{port}"
