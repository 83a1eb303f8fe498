"""Start `windlass serve` and use it with the openai package. The tools run in the gateway."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam
from upstream import QUESTION, scripted

from windlass.testing import FakeOpenAI

CONFIG = Path(__file__).parent / "windlass.toml"


@contextmanager
def gateway(upstream_url: str) -> Iterator[str]:
    """Starts the gateway in a separate process and yields its address."""
    command = [sys.executable, "-m", "windlass", "serve", "--config", str(CONFIG)]
    environment = {**os.environ, "OPENAI_BASE_URL": upstream_url, "OPENAI_API_KEY": "demo"}
    with subprocess.Popen(
        [*command, "--port", "0", "--log-level", "ERROR"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().split()[-1]
        finally:
            process.terminate()


def main() -> None:
    with (
        FakeOpenAI(scripted) as upstream,
        gateway(upstream.base_url) as address,
        OpenAI(base_url=f"{address}/v1", api_key="none") as client,
    ):
        question: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
        answer = client.chat.completions.create(model="demo", messages=question)
        print(f"complete: {answer.choices[0].message.content}")

        print("streamed: ", end="")
        for chunk in client.chat.completions.create(model="demo", messages=question, stream=True):
            print(chunk.choices[0].delta.content or "", end="", flush=True)
        print()


if __name__ == "__main__":
    main()
