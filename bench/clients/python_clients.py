"""The Python clients. Each forces a call of its own tool, and must receive the call.

`python python_clients.py NAME BASE_URL MODEL...` prints one JSON object per line, with model,
method and error.
"""

# pyright: reportMissingImports=false
# The packages of the clients are in a separate environment.

import asyncio
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel

QUESTION = "Report the weather in Paris."


class Report(BaseModel):
    """Reports the weather of a city."""

    city: str
    degrees: int


TOOL: Any = {
    "type": "function",
    "function": {
        "name": "report",
        "description": "Reports the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
            "required": ["city", "degrees"],
        },
    },
}
NAMED: Any = {"type": "function", "function": {"name": "report"}}
ALLOWED: Any = {
    "type": "allowed_tools",
    "allowed_tools": {"mode": "required", "tools": [NAMED]},
}

Method = tuple[str, Callable[[], None]]


def openai_python(url: str, model: str) -> Iterator[Method]:
    from openai import OpenAI

    client = OpenAI(base_url=url, api_key="none", max_retries=0)
    asked: Any = {"model": model, "messages": [{"role": "user", "content": QUESTION}]}

    def blocking(choice: Any, **fields: Any) -> None:
        answer = client.chat.completions.create(
            **asked, tools=[TOOL], tool_choice=choice, **fields
        ).choices[0]
        [made] = answer.message.tool_calls or [None]
        assert made is not None, f"text instead of a call: {answer.message.content!r}"
        assert answer.finish_reason == "tool_calls"
        Report.model_validate_json(made.function.arguments)

    def streamed() -> None:
        with client.chat.completions.stream(
            **asked, tools=[TOOL], tool_choice="required"
        ) as stream:
            message = stream.get_final_completion().choices[0].message
        [made] = message.tool_calls or [None]
        assert made is not None, f"text instead of a call: {message.content!r}"
        Report.model_validate_json(made.function.arguments)

    yield "required", lambda: blocking("required")
    yield "required, one call", lambda: blocking("required", parallel_tool_calls=False)
    yield "required, streamed", streamed
    yield "named", lambda: blocking(NAMED)
    yield "allowed_tools", lambda: blocking(ALLOWED)


def langchain(url: str, model: str) -> Iterator[Method]:
    from langchain.agents import create_agent
    from langchain.agents.structured_output import ToolStrategy
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model=model, base_url=url, api_key="none", max_retries=0)
    agent = create_agent(chat, tools=[], response_format=ToolStrategy(Report))
    asked: Any = {"messages": [{"role": "user", "content": QUESTION}]}
    # Without a limit, the agent asks a thousand times for a call that never comes.
    limit: Any = {"recursion_limit": 10}

    def invoked() -> None:
        assert isinstance(agent.invoke(asked, limit)["structured_response"], Report)

    def streamed() -> None:
        *_, last = agent.stream(asked, limit, stream_mode="values")
        assert isinstance(last["structured_response"], Report)

    def bound() -> None:
        forced = chat.bind_tools([Report], tool_choice="any")
        [made] = forced.invoke(QUESTION).tool_calls or [None]
        assert made is not None, "text instead of a call"
        Report.model_validate(made["args"])

    yield "create_agent, ToolStrategy", invoked
    yield "create_agent, ToolStrategy, streamed", streamed
    yield "bind_tools, any", bound


def llama_index(url: str, model: str) -> Iterator[Method]:
    from llama_index.core.program import FunctionCallingProgram
    from llama_index.core.prompts import PromptTemplate
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike

    llm: Any = OpenAILike(
        model=model,
        api_base=url,
        api_key="none",
        is_chat_model=True,
        is_function_calling_model=True,
        max_retries=0,
    )

    def structured() -> None:
        program = FunctionCallingProgram.from_defaults(
            output_cls=Report, llm=llm, prompt_template_str=QUESTION, tool_required=True
        )
        assert isinstance(program(), Report)

    def predicted() -> None:
        assert isinstance(llm.structured_predict(Report, PromptTemplate(QUESTION)), Report)

    def report(city: str, degrees: int) -> str:
        """Reports the weather of a city."""
        return f"{city}: {degrees}"

    asked: Any = {"tools": [FunctionTool.from_defaults(report)], "user_msg": QUESTION}

    def checked(answer: Any) -> None:
        [made] = llm.get_tool_calls_from_response(answer, error_on_no_tool_call=True)
        Report.model_validate(made.tool_kwargs)

    def streamed() -> None:
        *_, last = llm.stream_chat_with_tools(**asked, tool_required=True)
        checked(last)

    yield "FunctionCallingProgram", structured
    yield "structured_predict", predicted
    yield (
        "chat_with_tools, tool_required",
        lambda: checked(llm.chat_with_tools(**asked, tool_required=True)),
    )
    yield "stream_chat_with_tools, tool_required", streamed


def pydantic_ai(url: str, model: str) -> Iterator[Method]:
    from pydantic_ai import Agent, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    chat = OpenAIChatModel(model, provider=OpenAIProvider(base_url=url, api_key="none"))
    agent: Any = Agent(chat, output_type=ToolOutput(Report))

    def run() -> None:
        assert isinstance(agent.run_sync(QUESTION).output, Report)

    def streamed() -> None:
        async def go() -> Any:
            async with agent.run_stream(QUESTION) as answer:
                return await answer.get_output()

        assert isinstance(asyncio.run(go()), Report)

    yield "ToolOutput", run
    yield "ToolOutput, streamed", streamed


def openai_agents(url: str, model: str) -> Iterator[Method]:
    import agents
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)
    reported: list[str] = []

    @agents.function_tool
    def report(city: str, degrees: int) -> str:
        """Reports the weather of a city."""
        reported.append(city)
        return f"reported {degrees} in {city}"

    def agent_of(behaviour: Any) -> Any:
        reported.clear()
        # Created for each run, because a client of httpx belongs to one event loop.
        client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
        return agents.Agent(
            name="reporter",
            model=agents.OpenAIChatCompletionsModel(model, client),
            tools=[report],
            model_settings=agents.ModelSettings(tool_choice="required"),
            tool_use_behavior=behaviour,
        )

    def ended_by_the_tool() -> None:
        done = agents.Runner.run_sync(agent_of("stop_on_first_tool"), QUESTION, max_turns=4)
        assert reported == ["Paris"], f"the tool was called {len(reported)} times"
        assert done.final_output.startswith("reported"), done.final_output

    def resumed() -> None:
        done = agents.Runner.run_sync(agent_of("run_llm_again"), QUESTION, max_turns=4)
        assert reported == ["Paris"], f"the tool was called {len(reported)} times"
        assert done.final_output == "It is 21 degrees in Paris.", done.final_output

    def streamed() -> None:
        async def go() -> Any:
            done = agents.Runner.run_streamed(agent_of("stop_on_first_tool"), QUESTION, max_turns=4)
            async for _ in done.stream_events():
                pass
            return done.final_output

        output = asyncio.run(go())
        assert reported == ["Paris"], f"the tool was called {len(reported)} times"
        assert output.startswith("reported"), output

    yield "required, stop_on_first_tool", ended_by_the_tool
    yield "required, run_llm_again", resumed
    yield "required, streamed", streamed


def instructor(url: str, model: str) -> Iterator[Method]:
    import instructor as package
    from openai import OpenAI

    def asked(mode: Any) -> None:
        client = package.from_openai(OpenAI(base_url=url, api_key="none", max_retries=0), mode=mode)
        made = client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": QUESTION}],
            response_model=Report,
            max_retries=1,
        )
        assert isinstance(made, Report)

    yield "Mode.TOOLS", lambda: asked(package.Mode.TOOLS)
    yield "Mode.TOOLS_STRICT", lambda: asked(package.Mode.TOOLS_STRICT)


def smolagents(url: str, model: str) -> Iterator[Method]:
    from smolagents import OpenAIServerModel, ToolCallingAgent
    from smolagents.monitoring import LogLevel

    def run() -> None:
        served = OpenAIServerModel(
            model_id=model, api_base=url, api_key="none", client_kwargs={"max_retries": 0}
        )
        agent = ToolCallingAgent(tools=[], model=served, max_steps=2, verbosity_level=LogLevel.OFF)
        done: Any = agent.run(QUESTION, return_full_result=True)
        assert done.state == "success", f"the run ended with {done.state}"

    yield "ToolCallingAgent", run


CLIENTS: dict[str, Callable[[str, str], Iterator[Method]]] = {
    "openai": openai_python,
    "langchain": langchain,
    "llama-index": llama_index,
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
    "instructor": instructor,
    "smolagents": smolagents,
}


def main() -> None:
    name, url, *models = sys.argv[1:]
    for model in models:
        for method, ask in CLIENTS[name](url, model):
            try:
                ask()
                error = ""
            except Exception as problem:  # noqa: BLE001 - each client has its own errors
                traceback.print_exc()
                error = f"{type(problem).__name__}: {problem}"
            print(json.dumps({"model": model, "method": method, "error": error}), flush=True)


if __name__ == "__main__":
    main()
