"""A program with a client on a file of runs that forks children, which use the same file.

Arguments: the file, the address of the model, how many children, and a seed. Each process prints
what it has done, a line of JSON each: `refused` is an error about the fork, `answered` and
`failed` are runs, `resumed` are those of killed children.
"""

import json
import os
import random
import signal
import sys
import time

from tests.crash.scenarios import prompt_of
from tests.support.ledger_tools import book, look, pay, read, sign

from windlass import Client, StorageError
from windlass.client.sync import Run

FILE, BASE_URL = sys.argv[1:3]
CHILDREN, SEED = map(int, sys.argv[3:])
TOOLS = [look, read, pay, sign, book]
KINDS = ("text", "parallel", "retry", "early")
REFUSAL = "this process was forked"
"""Part of every error that refuses the use of the file in a child."""


def tell(what: str, **more: str) -> None:
    """One line in one write, because other processes write too."""
    os.write(1, json.dumps({"what": what, **more}).encode() + b"\n")


def make_client() -> Client:
    return Client(
        "openai/gpt-test", base_url=BASE_URL, api_key="k", mode="native", log=FILE, tools=TOOLS
    )


def begin(client: Client, number: int) -> Run:
    run = client.start(prompt_of(KINDS[number % len(KINDS)], number, SEED))
    tell("begun", run=run.id)
    return run


def finish(run: Run, what: str = "answered") -> None:
    try:
        run.result()
    except Exception as error:  # noqa: BLE001 - it is reported
        tell("failed", run=run.id, error=repr(error))
    else:
        tell(what, run=run.id)


def work(inherited: Client, number: int, chance: random.Random) -> None:
    """What a child does: with its parent's client nothing, with its own client two runs."""
    try:
        inherited.start("?")
    except StorageError as error:
        told = REFUSAL in str(error)
        tell("refused: the parent's client" if told else "failed", error=str(error))
    else:
        tell("failed", error="a child could use its parent's client")
    try:
        client = make_client()
        runs = [begin(client, number * 100 + n) for n in range(2)]
    except StorageError as error:
        told = REFUSAL in str(error)
        tell("refused: its own client" if told else "failed", error=str(error))
        return
    if chance.random() < 0.5:  # a fork of a fork; both continue
        fork(client, number * 10)
    for run in runs:
        finish(run)
    if chance.random() < 0.5:
        client.close()


def fork(client: Client, number: int) -> int:
    child = os.fork()
    if not child:
        try:
            work(client, number, random.Random(f"{SEED} {number}"))
        except BaseException as error:  # noqa: BLE001 - it is reported
            tell("failed", error=repr(error))
        finally:
            os._exit(0)
    tell("forked")
    return child


def main() -> None:
    chance = random.Random(SEED)
    client = make_client()
    runs = [begin(client, number) for number in range(4)]
    children: list[int] = []
    for number in range(10, 10 + CHILDREN):
        time.sleep(chance.uniform(0.0, 0.2))  # any moment of the runs will do
        children.append(fork(client, number))
        runs.append(begin(client, number))
        if chance.random() < 0.3:
            time.sleep(chance.uniform(0.0, 0.5))
            os.kill(children[-1], signal.SIGKILL)
            tell("killed")
    for child in children:
        os.waitpid(child, 0)
    for run in runs:
        finish(run)
    for run in client.resume(tools=TOOLS):
        finish(run, "resumed")
    client.close()


if __name__ == "__main__":
    main()
