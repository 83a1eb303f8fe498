"""A tool that needs approval. The approver can also change the arguments."""

from windlass import Approval, Client, FunctionCall, tool
from windlass.testing import ScriptedModel, call, calls

OUTBOX: list[str] = []


@tool(approve=True)
def send_mail(to: str, text: str) -> str:
    """Sends a mail."""
    OUTBOX.append(f"{to}: {text}")
    return "sent"


def decide(mail: FunctionCall) -> Approval:
    """Denies mail to everybody, and adds a greeting to other mails. A program can ask the user."""
    arguments = mail.arguments
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
