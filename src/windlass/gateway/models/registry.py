"""The models of a gateway by the names that clients use, and the tools of its MCP servers."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from windlass.emulation.mode import load_emulation
from windlass.errors import ConfigError, WindlassError
from windlass.gateway.config import GatewayConfig, KeyConfig, McpConfig, ModelConfig
from windlass.gateway.config.tool_loading import (
    ALL_OF_IT,
    Toolbox,
    login_store,
    mcp_toolset,
    named_tools,
    sampling_models,
)
from windlass.gateway.http.errors import Refused
from windlass.gateway.models.served_model import ServedModel
from windlass.jsontext import offloaded
from windlass.loop.executor import ToolExecutor
from windlass.model import Model, Toolset
from windlass.models import create_model
from windlass.request import RequestLimits
from windlass.settings import function_calling_settings
from windlass.tool import Tool, as_tools
from windlass.toolsets.mcp.options import SEPARATOR
from windlass.wires.errors import Problem

log = logging.getLogger("windlass.gateway")

_PATTERN = re.compile(r"[*?\[]")
MAX_OPEN_MODELS = 256
"""The maximum number of open models that the configuration does not name."""


def _log_ready(model: str, seconds: float) -> None:
    log.info("Model ready", extra={"model": model, "seconds": round(seconds, 1)})


class ModelRegistry:
    """Finds served models by name. `models` and `tools` replace those of the configuration."""

    def __init__(
        self,
        config: GatewayConfig,
        limits: RequestLimits,
        models: Mapping[str, Model],
        tools: Iterable[Any] | None,
        environ: Mapping[str, str],
        executor: ToolExecutor,
    ) -> None:
        """Raises `ConfigError` for an invalid configuration."""
        self._executor = executor
        self._config, self._limits, self._environ = config, limits, environ
        self.settings = function_calling_settings(environ)
        box = self._loaded(tools)
        instructing = [name for name, server in config.mcp.items() if server.instructions]
        self.servers = McpServers(box.servers, box.absent, box.with_login, config.base, instructing)
        self.tools = box.tools
        """The tools known at startup; MCP servers may add or remove some later."""
        self._own = box.own
        self.models = self._configured(models)
        self._opened: dict[str, ServedModel] = {}
        self.on_ready: Callable[[str, float], None] = _log_ready
        """Called with a local model's name when it can answer, and the seconds that it took."""
        for server in config.mcp.values():
            if server.sampling in self.models:
                sampling_models[server.sampling] = self.models[server.sampling]

    def names(self, key: KeyConfig | None) -> list[str]:
        """The names of the models that this key may use."""
        return [name for name in self.models if _may_use(key, name)]

    def served(self, name: str, key: KeyConfig | None) -> ServedModel:
        """The model of that name. Raises `Refused` (404) if this key has no such model.

        Of several models with a matching alias, it is the first that this key may use.
        """
        served = self.find(name, key)
        if served is None or not _may_use(key, served.name):
            message = f"The model {name[:200]!r} does not exist, or this key may not use it."
            raise Refused(Problem(404, message, "model_not_found", "model"))
        return served

    def aliases(self, key: KeyConfig | None) -> list[str]:
        """The aliases without a pattern of the models that this key may use."""
        models = [self.models[name] for name in self.names(key)]
        aliases = (alias for served in models for alias in served.config.aliases)
        return [alias for alias in dict.fromkeys(aliases) if not _PATTERN.search(alias)]

    def find(self, name: str, key: KeyConfig | None = None) -> ServedModel | None:
        """The model of that name. `key` only chooses between models with the same alias."""
        served = self.models.get(name) or self._opened.get(name) or self._by_alias(name, key)
        if served is None and self._config.open_models:
            served = self._open(name)
        return served

    def _by_alias(self, name: str, key: KeyConfig | None) -> ServedModel | None:
        """The first model with an alias that matches, of those that the key may use."""
        for served in self.models.values():
            matches = any(fnmatchcase(name, alias) for alias in served.config.aliases)
            if matches and _may_use(key, served.name):
                return served
        return None

    async def mcp_tools(self, served: ServedModel, owner: str = "") -> tuple[Tool, ...]:
        """The current MCP tools of a run of this model and this owner."""
        if not served.config.function_calling:
            return ()
        return await self.servers.tools(served.config.tools, owner)

    async def tools_of(self, served: ServedModel, owner: str = "") -> tuple[Tool, ...]:
        """All tools of a run of this model and this owner, except those of workers."""
        mcp = [tool for tool in await self.mcp_tools(served, owner) if tool.name not in served.own]
        return (*served.own.values(), *mcp)

    async def warm(self) -> None:
        """Loads models and tools of this process in advance, so that no request waits for them."""
        if any(served.mode != "native" for served in self.models.values()):
            await offloaded(load_emulation)
        for served in self.models.values():
            await offloaded(_load, served.own.values())
            started = time.monotonic()
            try:
                if await served.warm(await self.mcp_tools(served)):
                    self.on_ready(served.name, time.monotonic() - started)
            except WindlassError as error:
                log.warning("Model %s is not ready: %s", served.name, error)

    async def aclose(self) -> None:
        for served in (*self.models.values(), *self._opened.values()):
            await served.model.aclose()

    def _loaded(self, given: Iterable[Any] | None) -> Toolbox:
        box = Toolbox(self._config.base)
        if given is not None:
            box.tools = box.own = {tool.name: tool for tool in as_tools(given)}
            return box
        for entry in self._config.tool_modules:
            box.add(entry)
        return box

    def _configured(self, models: Mapping[str, Model]) -> dict[str, ServedModel]:
        configs = dict(self._config.models)
        for name, model in models.items():
            configs.setdefault(name, ModelConfig(name=name, target=model.name))
        return {
            name: self._serve(config, models.get(name) or self._create(config))
            for name, config in configs.items()
        }

    def _create(self, config: ModelConfig) -> Model:
        key = self._environ.get(config.api_key_env) if config.api_key_env else None
        try:
            return create_model(
                config.target,
                base_url=config.base_url,
                api_key=key,
                headers=config.headers or None,
            )
        except ConfigError as error:
            raise ConfigError(f"models.{config.name}: {error}") from error

    def _serve(self, config: ModelConfig, model: Model) -> ServedModel:
        missing = [name for name in config.tools if not self._may_have(name)]
        if missing:
            raise ConfigError(f"models.{config.name}.tools: unknown tools: {', '.join(missing)}")
        own = named_tools(config.tools if config.function_calling else (), self._own)
        return ServedModel(
            config,
            model,
            own,
            self.settings,
            self._config.limits,
            self._limits,
            self._executor,
            self._config.runs.on_interrupt,
        )

    def _may_have(self, name: str) -> bool:
        return bool(named_tools([name], self.tools)) or self.servers.has(name)

    def _open(self, name: str) -> ServedModel | None:
        """Creates a model that is not configured, from its name `provider/model`."""
        try:
            config = ModelConfig(name=name, target=name)
            served = self._serve(config, self._create(config))
        except ConfigError as error:
            log.info("Cannot open model", extra={"model": name[:200], "reason": str(error)})
            return None
        if len(self._opened) >= MAX_OPEN_MODELS:
            self._opened.pop(next(iter(self._opened)))
        self._opened[name] = served
        return served


def _may_use(key: KeyConfig | None, name: str) -> bool:
    return key is None or key.models is None or name in key.models


def _load(tools: Iterable[Tool]) -> None:
    """Makes each tool read its signature, which imports a library the first time."""
    for tool in tools:
        assert tool.declaration


class McpServers:
    """MCP servers by name, which is the prefix of their tools' names. Their tools may change."""

    def __init__(
        self,
        toolsets: Mapping[str, Toolset],
        absent: Collection[str],
        with_login: Mapping[str, McpConfig],
        base: Path,
        instructing: Collection[str] = (),
    ) -> None:
        """`absent` are the optional servers that could not be started.

        Servers `with_login` have a connection for each owner. The model reads the instructions of
        the servers in `instructing`.
        """
        self._instructing = instructing
        self._toolsets, self._absent = toolsets, absent
        self._with_login, self._base = with_login, base
        self._seen: dict[str, Sequence[Tool]] = {}
        self.on_tools: Callable[[Iterable[str]], None] | None = None
        """Called with the names of a server's tools when they have changed."""

    def has(self, name: str) -> bool:
        """Whether the name selects all tools of a server, or one tool of an absent server."""
        server = name.partition(SEPARATOR)[0]
        if server in self._absent or server in self._with_login:
            return True
        return name.removesuffix(ALL_OF_IT) in self._toolsets and name.endswith(ALL_OF_IT)

    async def instructions(self, names: Collection[str], owner: str = "") -> str:
        """The instructions of the servers of these tools whose configuration allows them."""
        texts: list[str] = []
        for server in (*self._toolsets, *self._with_login):
            used = any(name.startswith(f"{server}{SEPARATOR}") for name in names)
            if used and server in self._instructing:
                await self._listed(server, owner)
                toolset: Any = self._toolsets.get(server) or self._of_owner(server, owner)
                if said := toolset.instructions if toolset is not None else "":
                    texts.append(f"Instructions of the tools {server}{SEPARATOR}*:\n{said}")
        return "\n\n".join(texts)

    def version(self) -> object:
        """A value that changes when the tools of a server have changed."""
        return {server: id(tools) for server, tools in self._seen.items()}

    async def tools(self, names: Collection[str], owner: str = "") -> tuple[Tool, ...]:
        """The current tools with these names, with the logins of this owner."""
        used = [
            server
            for server in (*self._toolsets, *self._with_login)
            if any(name.startswith(f"{server}{SEPARATOR}") for name in names)
        ]
        if not used:
            return ()
        listed = await asyncio.gather(*(self._listed(server, owner) for server in used))
        found = {tool.name: tool for tools in listed for tool in tools}
        return tuple(named_tools(names, found).values())

    async def _listed(self, server: str, owner: str) -> Sequence[Tool]:
        """The tools of one server: the last known ones while it is down, none if refused."""
        seen = server if server in self._toolsets else f"{server} {owner}"
        try:
            toolset = self._toolsets.get(server) or self._of_owner(server, owner)
            tools = () if toolset is None else await toolset.list_tools()
        except ConfigError as error:
            tools = ()
            if self._seen.get(seen) != tools:
                log.error("Omitting the tools of the MCP server %r: %s", server, error)
        if self._seen.get(seen) is not tools:
            self._seen[seen] = tools
            if self.on_tools is not None:
                self.on_tools(tool.name for tool in tools)
        return tools

    def _of_owner(self, server: str, owner: str) -> Toolset | None:
        """The server with the login of this owner; None without a login."""
        config = self._with_login[server]
        if not login_store(config, owner).exists():
            return None
        return mcp_toolset(config, self._base, owner)
