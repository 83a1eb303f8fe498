"""Tools that a test controls: some wait, others fail, need an approval or return a lot."""

from collections.abc import Callable
from typing import Any

from windlass import Tool, ToolContext, ToolError, tool
from windlass.testing import Gate

__all__ = ["Toolbox"]


class Toolbox:
    """`hold("Rome")` makes every tool that comes to Rome wait at the gate that it returns."""

    def __init__(self) -> None:
        self._gates: dict[str, Gate] = {}
        self.ran: list[str] = []
        """The tools that have begun, by name."""

    def hold(self, place: str) -> Gate:
        return self._gates.setdefault(place, Gate())

    def open_all(self) -> None:
        for gate in self._gates.values():
            gate.open()

    async def at(self, place: str) -> None:
        if gate := self._gates.get(place):
            await gate.passed()

    def tools(self) -> list[Tool]:
        makers: list[Callable[[Toolbox], Tool]] = [
            _get_weather,
            _send_mail,
            _copy_files,
            _divide,
            _crash,
            _pay,
            _quote,
            _read_log,
        ]
        return [make(self) for make in makers]


def _get_weather(box: Toolbox) -> Tool:
    @tool(idempotent=True)
    async def get_weather(city: str) -> dict[str, Any]:
        """The weather of a city. Held at the city; stopped, it has certainly done nothing.

        Args:
            city: The city's name.
        """
        box.ran.append("get_weather")
        await box.at(city)
        return {"city": city, "sky": "sunny", "degrees": 21}

    return get_weather


def _send_mail(box: Toolbox) -> Tool:
    @tool
    async def send_mail(to: str, subject: str = "Hello") -> str:
        """Sends a mail. Held at who it goes to; stopped, it may have been sent.

        Args:
            to: Whom it goes to.
            subject: What stands above it.
        """
        box.ran.append("send_mail")
        await box.at(to)
        return f"sent to {to}: {subject}"

    return send_mail


def _copy_files(box: Toolbox) -> Tool:
    @tool
    async def copy_files(count: int, context: ToolContext) -> str:
        """Copies files and tells how far it is. Held at `file 1`, `file 2` and so on.

        Args:
            count: How many files there are.
        """
        box.ran.append("copy_files")
        for number in range(1, count + 1):
            context.progress((number - 1) / count, f"file {number} of {count}")
            await box.at(f"file {number}")
        return f"{count} files copied"

    return copy_files


def _divide(box: Toolbox) -> Tool:
    @tool
    def divide(dividend: float, divisor: float) -> float:
        """Divides two numbers, and says why it cannot."""
        box.ran.append("divide")
        if divisor == 0:
            raise ToolError("Nothing can be divided by zero.")
        return dividend / divisor

    return divide


def _crash(box: Toolbox) -> Tool:
    @tool
    def crash() -> str:
        """Fails as a tool with a bug does: what it says is for the gateway's log alone."""
        box.ran.append("crash")
        raise RuntimeError("what only the operator may read")

    return crash


def _pay(box: Toolbox) -> Tool:
    @tool(approve=True)
    async def pay(amount: int, payee: str = "the landlord") -> str:
        """Pays somebody, once a person has said yes. Held at the payee.

        Args:
            amount: How much.
            payee: To whom.
        """
        box.ran.append("pay")
        await box.at(payee)
        return f"paid {amount} to {payee}"

    return pay


def _quote(box: Toolbox) -> Tool:
    @tool
    def quote(text: str) -> str:
        """Gives back what it is given, whatever that is."""
        box.ran.append("quote")
        return text

    return quote


def _read_log(box: Toolbox) -> Tool:
    @tool
    def read_log(size: int) -> str:
        """A text of so many characters, in numbered lines."""
        box.ran.append("read_log")
        lines = (f"line {number}: nothing happened\n" for number in range(size // 20))
        return "".join(lines)[:size]

    return read_log
