"""Register tools, then pass them by declaration, by name, or as a whole registry."""

from typing import Any

from demo_tools import calculate, get_time
from upstream import QUESTION, models

from windlass import Client, FunctionDeclaration, Schema, ToolRegistry

WEATHER = FunctionDeclaration(
    "get_weather",
    "Gets the weather of a city.",
    Schema(
        type="OBJECT",
        properties={"city": Schema(type="STRING", description="The city's name.")},
        required=["city"],
    ),
)


def look_up(city: str) -> dict[str, Any]:
    return {"city": city, "sky": "sunny", "degrees": 22}


def main() -> None:
    registry = ToolRegistry()  # `windlass.registry` is the default registry of the process
    registry.register(WEATHER, look_up)
    registry.register(get_time)
    registry.register(calculate)
    with models() as available:
        for model in available:
            with Client(**model, registry=registry) as client:
                for tools in ([WEATHER, "get_time", "calculate"], [registry]):
                    reply = client.generate(QUESTION, tools=tools)
                    print(f"{reply.model}: {reply.text}")


if __name__ == "__main__":
    main()
