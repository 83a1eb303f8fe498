"""A tool that needs a person's yes. The person may also change the arguments first."""

from windlass import Approval, Client, FunctionCall, tool
from windlass.testing import ScriptedModel, call, calls

OUTBOX: list[str] = []


@tool(approve=True)
def send_mail(to: str, text: str) -> str:
    """Sends a mail."""
    OUTBOX.append(f"{to}: {text}")
    return "sent"


def decide(asked: FunctionCall) -> Approval:
    """Stands for a dialog: no mail to everybody, and the others more politely."""
    arguments = asked.arguments
    assert isinstance(arguments, dict)
    if arguments["to"] == "everybody":
        return Approval(False, reason="That is too many people.")
    return Approval(True, arguments={**arguments, "text": arguments["text"] + " Kind regards."})


def main() -> None:
    both = calls(
        call("send_mail", to="ada", text="It works."),
        call("send_mail", to="everybody", text="It works!"),
    )
    with Client(ScriptedModel([both, "One mail is sent."]), approve=decide) as client:
        reply = client.generate("Tell Ada, and everybody.", tools=[send_mail])
    print("outbox:", OUTBOX)
    print("denied:", reply.results[1].error)
    print(reply.text)


if __name__ == "__main__":
    main()
