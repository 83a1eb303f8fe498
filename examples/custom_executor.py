"""A custom executor that logs every call and refuses one tool."""

from demo_tools import TOOLS
from upstream import QUESTION, models

from windlass import Client, ToolAnswer, ToolError, ToolExecutor, ToolJob


class AuditedExecutor(ToolExecutor):
    """Inherits validation, timeouts, retries and error results."""

    async def execute(self, job: ToolJob) -> ToolAnswer:
        print(f"  audit: {job.call.name} {job.call.json}")
        if job.call.name == "get_time":
            raise ToolError("The clock is closed today.")
        return await super().execute(job)


def main() -> None:
    with models() as available:
        for model in available:
            print(model["model"])
            with Client(**model, executor=AuditedExecutor()) as client:
                print(client.generate(QUESTION, tools=TOOLS).text)


if __name__ == "__main__":
    main()
