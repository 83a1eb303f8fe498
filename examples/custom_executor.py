"""A custom executor that logs every call and refuses one tool."""

from demo_tools import TOOLS
from upstream import QUESTION, models

from windlass import Client, ToolAnswer, ToolError, ToolExecutor, ToolJob


class AuditedExecutor(ToolExecutor):
    """Validation, timeouts, retries and error results work as usual."""

    async def execute(self, job: ToolJob) -> ToolAnswer:
        print(f"  audit: {job.call.name} {job.call.json}")
        if job.call.name == "get_time":
            raise ToolError("The clock is closed today.")
        return await super().execute(job)


def main() -> None:
    with models() as found:
        for model in found:
            print(model["model"])
            with Client(**model, executor=AuditedExecutor()) as client:
                print(client.generate(QUESTION, tools=TOOLS).text)


if __name__ == "__main__":
    main()
