"""Test your tools with a scripted model. Everything else is the real code."""

from demo_tools import get_weather

from windlass import Client
from windlass.testing import ScriptedModel, call, raw_call


def test_the_model_reads_the_weather() -> None:
    model = ScriptedModel([call("get_weather", city="Paris"), "It is sunny."])
    reply = Client(model).generate("Weather in Paris?", tools=[get_weather])
    assert reply.results[0].output == {"city": "Paris", "sky": "sunny", "degrees": 22, "unit": "c"}
    assert reply.text == "It is sunny."


def test_an_unknown_city_is_explained_to_the_model() -> None:
    model = ScriptedModel([call("get_weather", city="Atlantis"), "I do not know."])
    reply = Client(model).generate("Weather in Atlantis?", tools=[get_weather])
    assert "no weather for 'Atlantis'" in (reply.results[0].error or "")


def test_arguments_that_cannot_be_read_do_not_reach_the_tool() -> None:
    model = ScriptedModel([raw_call("get_weather", '{"city": '), "Sorry."])
    reply = Client(model).generate("Weather?", tools=[get_weather])
    assert reply.results[0].error is not None


def main() -> None:
    for test in (
        test_the_model_reads_the_weather,
        test_an_unknown_city_is_explained_to_the_model,
        test_arguments_that_cannot_be_read_do_not_reach_the_tool,
    ):
        test()
        print(f"passed: {test.__name__}")


if __name__ == "__main__":
    main()
