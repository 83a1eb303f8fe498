"""instructor's first example: users from a text, validated, streamed while they are written."""

from pydantic import BaseModel, field_validator

from windlass import Client
from windlass.testing import ScriptedModel

TEXT = "Extract: Jason is 25 years old, and Sarah is 30."


class User(BaseModel):
    name: str
    age: int

    @field_validator("name")
    @classmethod
    def in_capitals(cls, name: str) -> str:
        if not name.isupper():
            raise ValueError("write names in capitals")
        return name


# A model that forgets the capitals at first; use Client("openai/gpt-4o") for a real one.
MODEL = ScriptedModel(
    [
        '[{"name": "Jason", "age": 25}]',
        '[{"name": "JASON", "age": 25}, {"name": "SARAH", "age": 30}]',
    ]
)


def main() -> None:
    with Client(MODEL) as client, client.stream(TEXT, output=list[User]) as stream:
        for users in stream.partial_outputs():
            print(f"so far: {users}")
        print(f"users: {stream.reply.output}")


if __name__ == "__main__":
    main()
