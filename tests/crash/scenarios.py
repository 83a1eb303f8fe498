"""The model of the crash test: each prompt names its kind, which decides all turns."""

import random
from collections.abc import Iterable, Sequence
from typing import Any

from windlass.testing import Step, Turn, call, calls, last_prompt, say, slow, tool_results

KINDS = ("text", "parallel", "retry", "fail", "approve", "early")
WHEN_CUT = {
    "look": "retry",
    "read": "retry",
    "pay": "tell_model",
    "sign": "tell_model",
    "book": "retry",
    "launch": "fail",
    "erase": "tell_model",
}
"""The result of a tool that ran when the gateway was killed."""
IDEMPOTENT = ("look", "read")
ROUNDS: dict[str, Sequence[Sequence[str]]] = {
    "text": [],
    "parallel": [["look", "pay", "read", "sign", "pay"], ["pay"]],
    "retry": [["book", "look", "book"], ["book"]],
    "fail": [["look"], ["launch", "pay"]],
    "approve": [["erase", "look"], ["pay", "erase"]],
    "early": [["look", "read", "look", "pay"], ["look", "look"]],
}
"""The tools that the turns of each kind call; then comes the answer."""
TEXT = "the rope goes round the drum and the load comes up a little with every turn of it"
WORDS = TEXT.split()


def prompt_of(kind: str, number: int, seed: int) -> str:
    return f"{kind} {number} of {seed}"


def model(body: dict[str, Any]) -> Step:
    """The next turn of any conversation. A repeated request gets the same turn."""
    prompt = last_prompt(body)
    number = sum(message["role"] == "assistant" for message in body["messages"])
    chance = random.Random(f"{prompt} {number}")
    rounds = ROUNDS[prompt.split()[0]]
    if number < len(rounds):
        return dripping(asking_for(rounds[number], number, chance), chance)
    words = [word_of(str(result.response["output"])) for result in tool_results(body)]
    return dripping(say(answer_to(prompt, words)), chance)


def asking_for(tools: Sequence[str], number: int, chance: random.Random) -> Turn:
    turns = [
        call(name, seconds=round(chance.uniform(0.005, 0.25), 3), id=f"call_{number}_{place}")
        for place, name in enumerate(tools)
    ]
    return calls(*turns, text=" ".join(chance.choices(WORDS, k=chance.randint(2, 8))))


def dripping(turn: Turn, chance: random.Random) -> Step:
    """The turn, in pieces with a little time between them."""
    step: Step = turn
    for piece in range(0, len(turn.text.split()) + 4 * len(turn.calls), 2):
        step = slow(step, seconds=chance.uniform(0.002, 0.03), after=piece)
    return step


def answer_to(prompt: str, words: Iterable[str]) -> str:
    """The answer of the run, given the results of its calls."""
    chance = random.Random(prompt)
    told = " ".join(chance.choices(WORDS, k=chance.randint(5, 25)))
    return f"{prompt}: {told}. {', '.join(words)}"


def word_of(result: str) -> str:
    """How the model reads a result."""
    for word in ("interrupted", "denied"):
        if word in result:
            return word
    return "ok" if result.startswith("done ") else result
