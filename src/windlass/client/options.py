"""The options, tools and prompts of a run, converted to the values that the loop needs."""

import asyncio
import contextlib
import difflib
import operator
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, cast

from msgspec import Struct

from windlass.content import Declaration, FunctionResponse, Message, Part, Schema, Text, paired
from windlass.errors import ConfigError
from windlass.loop.approval import ApprovalHook
from windlass.loop.executor import ToolExecutor
from windlass.loop.policy import OnLimit, Policy
from windlass.model import Settings, ToolChoice, Toolset, tool_choice_from
from windlass.models import Key, Retry
from windlass.output.spec import OutputMethod
from windlass.pricing import Number, Prices, exact, no_price, price_of
from windlass.runs.origin import Offer
from windlass.runs.protocol import RunLog
from windlass.settings import Mode
from windlass.tool import OnInterrupt, Tool, as_tools
from windlass.toolsets.registry import ToolRegistry

PromptItem: TypeAlias = "str | os.PathLike[str] | Part | Message | Mapping[str, Any]"
Prompt: TypeAlias = "PromptItem | Sequence[PromptItem]"
"""A text, a file (`Path`), a part, a message, a dict in OpenAI's or Gemini's format, or a list."""


class RunOptions(TypedDict, total=False):
    """The options of `generate`, `stream`, `start` and `chat`, and their defaults in a client."""

    system: str | None
    """The system message."""
    mode: Mode | None
    """`auto`, `native` or `emulated`; None means the environment's."""
    max_rounds: int
    on_limit: OnLimit
    max_tokens_total: int | None
    max_cost: Number | None
    prices: Prices | None
    """The prices of models, as a table or a file."""
    execute_tools: bool
    tool_choice: ToolChoice | str | dict[str, Any]
    parallel_tool_calls: bool | None
    max_parallel: int
    timeout: float | None
    tool_timeout: float | None
    approval_timeout: float
    approve: ApprovalHook | None
    """Decides about calls of tools with `approve=True`."""
    max_result_chars: int
    max_repeats: int
    on_interrupt: OnInterrupt
    expose_errors: bool
    temperature: float | None
    top_p: float | None
    top_k: int | None
    max_tokens: int | None
    stop: str | Sequence[str] | None
    seed: int | None
    presence_penalty: float | None
    frequency_penalty: float | None
    logprobs: bool | None
    top_logprobs: int | None
    reasoning_effort: str | None
    response_schema: Schema | None
    response_name: str | None
    response_strict: bool | None
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] | None
    extra: dict[str, Any]
    """Further fields of the request to the model, unchanged."""
    output_method: OutputMethod
    """How the model is asked for a value of the type `output`; `auto` chooses."""
    output_retries: int
    """How often an invalid value goes back to the model."""


class ClientOptions(RunOptions, total=False):
    """The options of a client: its connection, its limits, and the defaults of its runs."""

    tools: Iterable[Any]
    """The tools of every run."""
    base_url: str | None
    """The address of the model's service."""
    api_key: Key | None
    """The key, or a function that returns it; None means the provider's usual variable."""
    headers: Mapping[str, str] | None
    """Headers for every request to the model's service."""
    retry: Retry | None
    """When and how often failed requests are repeated."""
    executor: ToolExecutor | None
    """Runs the tools instead of the default executor."""
    registry: ToolRegistry | None
    """Resolves names and declarations of tools; None means `windlass.registry`."""
    log: RunLog | str | os.PathLike[str] | None
    """Stores runs and chats: a file, or any `RunLog`. None means in memory."""
    max_running: int
    """How many runs may be active at the same time."""
    keep_finished: float
    """For how many seconds ended runs stay in memory."""


_POLICY = frozenset(Policy.__struct_fields__) - {"price"}
_SETTINGS = frozenset(Settings.__struct_fields__)


def checked(options: RunOptions, *, of_client: bool = False) -> RunOptions:
    """Returns the options unchanged. Raises `ConfigError` for an unknown name, with a suggestion.

    `of_client` means that they are the options of a client.
    """
    known = RunOptions.__annotations__
    for name in options:
        if name not in known:
            raise ConfigError(f"there is no option {name!r}{_hint(name, of_client=of_client)}")
    return options


RENAMED: dict[str, str] = {
    "turn_limit": "max_rounds",
    "max_turns": "max_rounds",
    "max_iterations": "max_rounds",
    "max_steps": "max_rounds",
    "max_loops": "max_rounds",
    "max_tool_rounds": "max_rounds",
    "max_tool_calls": "max_rounds",
    "max_tool_iterations": "max_rounds",
    "max_function_calls": "max_rounds",
    "maximum_remote_calls": "max_rounds",
    "recursion_limit": "max_rounds",
    "round_limit": "max_rounds",
    "tool_rounds": "max_rounds",
    "token_budget": "max_tokens_total",
    "max_total_tokens": "max_tokens_total",
    "total_tokens_limit": "max_tokens_total",
    "cost_limit": "max_cost",
    "max_budget": "max_cost",
    "max_budget_usd": "max_cost",
    "price": "prices",
    "auto_execute_tools": "execute_tools",
    "auto_execute": "execute_tools",
    "automatic_function_calling": "execute_tools",
    "execute": "execute_tools",
    "disable": "execute_tools",
    "system_prompt": "system",
    "system_message": "system",
    "system_instruction": "system",
    "system_instructions": "system",
    "instructions": "system",
    "functions": "tools",
    "function_declarations": "tools",
    "enabled_tools": "tools",
    "toolset": "tools",
    "toolsets": "tools",
    "function_call": "tool_choice",
    "tool_config": "tool_choice",
    "function_calling_config": "tool_choice",
    "function_calling_mode": "mode",
    "tool_mode": "mode",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "max_new_tokens": "max_tokens",
    "stop_sequences": "stop",
    "response_format": "output",
    "response_model": "output",
    "response_type": "output",
    "response_json_schema": "response_schema",
    "output_schema": "output",
    "output_type": "output",
    "result_type": "output",
    "text_format": "output",
    "output_mode": "output_method",
    "max_output_retries": "output_retries",
    "validation_retries": "output_retries",
    "result_validator": "output_validator",
    "parallel_calls": "parallel_tool_calls",
    "max_concurrency": "max_parallel",
    "max_workers": "max_parallel",
    "request_timeout": "timeout",
    "run_timeout": "timeout",
    "extra_body": "extra",
    "model_kwargs": "extra",
    "on_approval": "approve",
    "approval": "approve",
    "show_errors": "expose_errors",
    "api_base": "base_url",
    "endpoint": "base_url",
    "url": "base_url",
    "host": "base_url",
    "key": "api_key",
    "token": "api_key",
    "openai_api_key": "api_key",
    "google_api_key": "api_key",
    "extra_headers": "headers",
    "default_headers": "headers",
    "max_retries": "retry",
    "retries": "retry",
    "tool_executor": "executor",
    "checkpointer": "log",
    "store": "log",
    "db": "log",
}
"""Option names of other libraries, and the name here."""

ELSEWHERE: dict[str, str] = {
    "messages": "pass them as the prompt, the first argument; a chat takes messages=",
    "contents": "pass them as the prompt, the first argument",
    "content": "pass it as the prompt, the first argument",
    "input": "pass it as the prompt, the first argument",
    "query": "pass it as the prompt, the first argument",
    "history": "pass it as the prompt, the first argument, or use client.chat(messages=...)",
    "stream": "use client.stream(...)",
    "streaming": "use client.stream(...)",
    "on_data": "use client.stream(...) and read its events",
    "on_chunk": "use client.stream(...) and read its events",
    "callback": "use client.stream(...) and read its events",
    "callbacks": "use client.stream(...) and read its events",
    "background": "use client.start(...)",
    "model": "a client has one model: Client('provider/model')",
    "model_name": "a client has one model: Client('provider/model')",
    "config": "give its fields as options: temperature=, max_tokens=, tool_choice=, ...",
    "generation_config": "give its fields as options: temperature=, max_tokens=, ...",
    "n": "a run has one answer",
    "verbose": "set the level of the logger 'windlass'",
    "debug": "set the level of the logger 'windlass'",
}
"""Options of other libraries that do not exist here, and what to use instead."""


CALL_OPTIONS = ("output", "output_validator")
"""Arguments of single calls: a client or a chat has no type of answer for all its calls."""


def _hint(name: str, *, of_client: bool) -> str:
    options = ClientOptions.__annotations__
    allowed = {**options} if of_client else {**RunOptions.__annotations__, "tools": None}
    written = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    meant = written if written in {*options, *CALL_OPTIONS} else RENAMED.get(written)
    if meant is None and written in ELSEWHERE:
        return f": {ELSEWHERE[written]}"
    if meant is None and (near := difflib.get_close_matches(written, [*allowed, *RENAMED], n=1)):
        meant = RENAMED.get(near[0], near[0])
    if meant is None:
        return ""
    where = "" if meant in allowed else " of the client: Client(model, ...)"
    if meant in CALL_OPTIONS:
        where = " of generate, stream, start or send"
    return f"; did you mean {meant!r}{where}?"


def policy_from(options: RunOptions, model: str) -> Policy:
    """The policy of a run of this model. Raises `ConfigError`, also for a cost without a price."""
    values: dict[str, Any] = {name: options[name] for name in options if name in _POLICY}
    if "tool_choice" in options:
        values["tool_choice"] = tool_choice_from(options["tool_choice"])
    values["price"] = price_of(model, options.get("prices"))
    if (most := options.get("max_cost")) is not None:
        values["max_cost"] = exact(most, "max_cost")
        if values["price"] is None:
            raise ConfigError(no_price(model))
    return Policy(**values)


def settings_from(options: RunOptions) -> Settings:
    values: dict[str, Any] = {name: options[name] for name in options if name in _SETTINGS}
    stop = values.get("stop")
    if stop is not None:
        values["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    return Settings(**values)


def tool_list(items: Iterable[Any]) -> tuple[Any, ...]:
    """Returns the items of `tools=[...]`. Raises `ConfigError` for a tool that is not in a list."""
    whole: Any = items
    if isinstance(whole, str | Mapping | Tool | Struct) or not isinstance(whole, Iterable):
        raise ConfigError(f"tools must be a list: put {whole!r} in [...]")
    return tuple(items)


class Offers:
    """Converts lists of tools to offers. Caches the last list, which is often that of the next run.

    Looks up names and declarations in the registries of the list, those of the client's own list,
    and the client's registry.
    """

    def __init__(self, registry: ToolRegistry, own: Iterable[Any] = ()) -> None:
        self._registries = [*(item for item in own if isinstance(item, ToolRegistry)), registry]
        self._items: tuple[Any, ...] = ()
        self._offer = Offer({}, ())

    async def read(self, items: Iterable[Any]) -> Offer:
        """Converts a list. Raises `DuplicateTool`, and `ConfigError` for an invalid tool."""
        items = tool_list(items)
        if len(items) == len(self._items) and all(map(operator.is_, items, self._items)):
            return self._offer
        # Not isinstance: the check of a protocol costs more than the rest of this function.
        toolsets = [cast("Toolset", item) for item in items if hasattr(item, "list_tools")]
        plain = [item for item in items if not hasattr(item, "list_tools")]
        # Concurrently: tool servers take a while to start.
        lists = await asyncio.gather(*(toolset.list_tools() for toolset in toolsets))
        registries = [item for item in items if isinstance(item, ToolRegistry)]
        found = _Lookup([*registries, *self._registries])
        given = [tool for item in plain for tool in found.tools_of(item)]
        listed = [tool for tools in lists for tool in tools if id(tool) not in found.used]
        tools = {tool.name: tool for tool in as_tools([*given, *listed])}
        offer = Offer(tools, tuple(tool.declaration for tool in tools.values()))
        # Not cached: toolsets, registries and dicts, whose content may change.
        if not toolsets and all(callable(item) for item in items):
            self._items, self._offer = items, offer
        return offer

    def runnable(self, tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
        """Returns the tools, with registered tools in place of those that are only declared."""
        declared = {name: tool for name, tool in tools.items() if not tool.runnable}
        found = _Lookup(self._registries)
        for name, tool in declared.items():
            with contextlib.suppress(ConfigError):  # it is another tool, which the caller runs
                declared[name] = found.known(tool.declaration) or tool
        return {**tools, **declared}

    def registered(self, names: Iterable[str]) -> dict[str, Tool]:
        """Returns the registered tools with these names."""
        found = {name: _registered(name, self._registries) for name in names}
        return {name: tool for name, tool in found.items() if tool is not None}


class _Lookup:
    """Looks up names and declarations in registries; `used` has the ids of the found tools."""

    def __init__(self, registries: Sequence[ToolRegistry]) -> None:
        self._registries = registries
        self.used: set[int] = set()

    def tools_of(self, item: Any) -> Sequence[Any]:
        if isinstance(item, str):
            return [self._named(item)]
        if isinstance(item, Tool) or callable(item):
            return [item]
        return [self.known(tool.declaration) or tool for tool in as_tools([item])]

    def known(self, declaration: Declaration) -> Tool | None:
        for registry in self._registries:
            if (tool := registry.known(declaration)) is not None:
                self.used.add(id(registry.get(tool.name)))
                return tool
        return None

    def _named(self, name: str) -> Tool:
        tool = _registered(name, self._registries)
        if tool is None:
            names = [each.name for registry in self._registries for each in registry]
            near = difflib.get_close_matches(name, names, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ConfigError(f"no tool named {name!r} is registered{hint}")
        self.used.add(id(tool))
        return tool


def _registered(name: str, registries: Iterable[ToolRegistry]) -> Tool | None:
    return next((tool for each in registries if (tool := each.get(name)) is not None), None)


def messages_from(prompt: Prompt, system: str | None) -> tuple[Message, ...]:
    """Converts a prompt to messages. Raises `ConfigError` if it is empty or invalid."""
    if isinstance(prompt, Sequence) and not isinstance(prompt, str):
        messages = _conversation(prompt)
    else:
        messages = _conversation([prompt])
    if not messages:
        raise ConfigError("the prompt is empty")
    if system and messages[0].role != "system":
        messages = [Message.system(system), *messages]
    return paired(messages)


def _conversation(items: Sequence[Any]) -> list[Message]:
    """Joins adjacent texts and parts to one user message, and decodes adjacent dicts together."""
    messages: list[Message] = []
    parts: list[Any] = []
    dicts: list[Mapping[str, Any]] = []

    def close() -> None:
        if parts:
            messages.append(_message(parts))
            parts.clear()
        if dicts:
            messages.extend(_decoded(dicts))
            dicts.clear()

    for item in items:
        if item == "":
            continue
        if isinstance(item, os.PathLike):
            item = Part.from_file(cast("os.PathLike[str]", item))
        if isinstance(item, str | Part):
            if dicts:
                close()
            parts.append(Text(item) if isinstance(item, str) else item)
        elif isinstance(item, Mapping):
            if parts:
                close()
            dicts.append(cast("Mapping[str, Any]", item))
        elif isinstance(item, Message):
            close()
            messages.append(item)
        else:
            raise ConfigError(f"a prompt cannot contain a {type(item).__name__}: {item!r:.80}")
    close()
    return messages


def _message(parts: list[Any]) -> Message:
    """Responses become a tool message, everything else a user message."""
    if all(isinstance(part, FunctionResponse) for part in parts):
        return Message.tool(parts)
    return Message.user(*parts)


def _decoded(dicts: list[Mapping[str, Any]]) -> tuple[Message, ...]:
    plain = [dict(item) for item in dicts]
    if all("parts" in item for item in plain):
        from windlass.wires.gemini.messages import decode_messages
    else:
        from windlass.wires.chat.messages import decode_messages
    return decode_messages(plain)
