"""Test your tools with a scripted model. Only the model is scripted; your tools really run."""

from demo_tools import get_weather

from windlass import Client
from windlass.testing import ScriptedModel, call, raw_call


def test_the_model_receives_the_weather() -> None:
    model = ScriptedModel([call("get_weather", city="Paris"), "It is sunny."])
    reply = Client(model).generate("Weather in Paris?", tools=[get_weather])
    assert reply.results[0].output == {"city": "Paris", "sky": "sunny", "degrees": 22, "unit": "c"}
    assert reply.text == "It is sunny."


def test_the_model_receives_an_error_for_an_unknown_city() -> None:
    model = ScriptedModel([call("get_weather", city="Atlantis"), "I do not know."])
    reply = Client(model).generate("Weather in Atlantis?", tools=[get_weather])
    assert "no weather for 'Atlantis'" in (reply.results[0].error or "")


def test_invalid_arguments_do_not_reach_the_tool() -> None:
    model = ScriptedModel([raw_call("get_weather", '{"city": '), "Sorry."])
    reply = Client(model).generate("Weather?", tools=[get_weather])
    assert reply.results[0].error is not None


def main() -> None:
    for test in (
        test_the_model_receives_the_weather,
        test_the_model_receives_an_error_for_an_unknown_city,
        test_invalid_arguments_do_not_reach_the_tool,
    ):
        test()
        print(f"passed: {test.__name__}")


if __name__ == "__main__":
    main()
