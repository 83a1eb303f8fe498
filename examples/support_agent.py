"""pydantic-ai's bank support agent: a tool with an injected dependency, and a typed answer."""

from typing import Annotated

from pydantic import BaseModel, Field

from windlass import Client, Depends, tool
from windlass.testing import ScriptedModel, call, say

BALANCES = {123: 123.45}


def customer_id() -> int:
    return 123  # in a program: the customer who is signed in


class SupportOutput(BaseModel):
    support_advice: str = Field(description="Advice returned to the customer")
    block_card: bool = Field(description="Whether to block the customer's card")
    risk: int = Field(description="Risk level of query", ge=0, le=10)


@tool
def customer_balance(customer: Annotated[int, Depends(customer_id)]) -> str:
    """Returns the customer's current account balance."""
    return f"${BALANCES[customer]:.2f}"


# Use Client("openai/gpt-4o") for a real model.
MODEL = ScriptedModel(
    [
        call("customer_balance"),
        say('{"support_advice": "Your balance is $123.45.", "block_card": false, "risk": 1}'),
        say('{"support_advice": "We block your card now.", "block_card": true, "risk": 11}'),
        say('{"support_advice": "We block your card now.", "block_card": true, "risk": 8}'),
    ]
)


def main() -> None:
    system = "You are a support agent in our bank. Give support, and judge the risk of the query."
    with Client(MODEL, system=system, tools=[customer_balance]) as client:
        for query in ("What is my balance?", "I just lost my card!"):
            print(repr(client.generate(query, output=SupportOutput).output))


if __name__ == "__main__":
    main()
