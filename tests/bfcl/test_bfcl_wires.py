"""BFCL's gold calls through every wire of the gateway: to the client and back, as they were.

Names have `_` for `.`, as in BFCL's own requests to services, which refuse dots. Each wire takes
its own part of the cases, streamed and in one body; `make bfcl` takes them all.
"""

import json
import random
from collections.abc import Iterable

import msgspec
import pytest
from tests.bfcl.data import Call, Case, cases, exact
from tests.support.asgi import post
from tests.support.ingress import INGRESSES, Ingress, Seen
from tests.support.serving import config_of
from tests.support.thoroughness import WHOLE_BFCL

from windlass.content import FunctionCall, FunctionDeclaration
from windlass.gateway import App, create_app
from windlass.gateway.config import ModelConfig, ServerConfig
from windlass.model import ModelRequest
from windlass.testing import ScriptedModel, Step, call, calls

EVERY = 1 if WHOLE_BFCL else 120
PARTS = 8 if WHOLE_BFCL else 1
"""How many tests share the cases of a wire, so that several processes run them."""

pytestmark = [pytest.mark.sweep, pytest.mark.timeout(900)]
ingresses = pytest.mark.parametrize("ingress", INGRESSES.values(), ids=lambda each: each.name)
forms = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
parts = pytest.mark.parametrize("part", range(PARTS))


class Gateway:
    """A gateway without tools of its own, whose model plays the step that is set."""

    def __init__(self) -> None:
        self.step: Step = ""
        self.asked: list[ModelRequest] = []
        model = ScriptedModel(self._played)
        config = config_of(
            ModelConfig(name="m", target="scripted/model"), server=ServerConfig(access_log=False)
        )
        self.app: App = create_app(config, models={"m": model})

    def _played(self, request: ModelRequest) -> Step:
        self.asked.append(request)
        return self.step

    async def answer(
        self, ingress: Ingress, said: list[object], tools: Iterable[FunctionDeclaration], form: bool
    ) -> Seen:
        path, body = ingress.request("m", said, tools=list(tools), stream=form)
        answer = await post(self.app, body, path)
        assert answer.status == 200, answer.body
        return ingress.read_stream(answer.body) if form else ingress.read(answer.json)


@ingresses
@forms
@parts
async def test_reference_calls_reach_the_client_and_their_results_return(
    ingress: Ingress, streamed: bool, part: int
) -> None:
    start = random.Random(f"{ingress.name} {streamed}").randrange(EVERY)
    sample = cases()[start::EVERY][part::PARTS]
    gateway = Gateway()
    for case in sample:
        await _check(gateway, _portable(case), ingress, streamed)


def _portable(case: Case) -> Case:
    """The case with names that every service accepts."""
    tools = tuple(msgspec.structs.replace(each, name=_name(each.name)) for each in case.tools)
    return Case(
        case.id, tools, tuple(Call(_name(each.name), each.arguments) for each in case.calls)
    )


def _name(name: str) -> str:
    return name.replace(".", "_")


async def _check(gateway: Gateway, case: Case, ingress: Ingress, streamed: bool) -> None:
    question = ingress.user("Go.")
    gateway.step = calls(*(call(made.name, made.arguments) for made in case.calls))
    seen = await gateway.answer(ingress, [question], case.tools, streamed)
    assert exact_pairs(seen.calls) == exact(case.calls), case.id
    assert (seen.text, seen.finish) == ("", "calls"), case.id
    declared = [tool for tool in gateway.asked[-1].tools if isinstance(tool, FunctionDeclaration)]
    assert [tool.name for tool in declared] == [tool.name for tool in case.tools], case.id

    gateway.step = "Done."
    results = [f"result {number}" for number in range(len(case.calls))]
    said = [question, *ingress.results(seen, results)]
    answer = await gateway.answer(ingress, said, case.tools, streamed)
    assert answer.text == "Done.", case.id
    messages = gateway.asked[-1].messages
    made = [each for message in messages for each in message.calls]
    answers = [each for message in messages for each in message.responses]
    assert exact(made) == exact(case.calls), case.id
    assert [each.text for each in answers] == results, case.id
    assert [(each.id, each.name) for each in answers] == [_key(each) for each in made], case.id


def exact_pairs(made: Iterable[tuple[str, dict[str, object]]]) -> list[tuple[str, str]]:
    return [(name, json.dumps(arguments, sort_keys=True)) for name, arguments in made]


def _key(made: FunctionCall) -> tuple[str, str]:
    return made.id, made.name
