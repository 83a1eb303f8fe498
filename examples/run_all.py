"""Run all examples, one after the other."""

import runpy
from pathlib import Path

EXAMPLES = (
    "blocking",
    "automatic_execution",
    "streaming",
    "async_streaming",
    "background_run",
    "durable_run",
    "chat",
    "registered_tools",
    "parallel_tools",
    "manual_control",
    "custom_executor",
    "approvals",
    "extract_users",
    "support_agent",
    "testing_your_tools",
    "gateway_client",
    "mcp_server",
)


def main() -> None:
    here = Path(__file__).parent
    for name in EXAMPLES:
        print(f"\n--- examples/{name}.py")
        runpy.run_path(str(here / f"{name}.py"), run_name="__main__")


if __name__ == "__main__":
    main()
