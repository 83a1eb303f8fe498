"""Our MCP client, driven through the scenarios of the conformance suite.

The suite starts a program for each scenario, names it in the environment, and passes the address of
its server as the last argument. Our program only forwards that to one process, which runs them all.
"""

import asyncio
import json
import shlex
import socketserver
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

import windlass
from windlass import Approval, AsyncClient, FunctionCall, FunctionDeclaration, Part, Tool
from windlass.testing import ScriptedModel
from windlass.toolsets.mcp.toolset import McpToolset

# The suite's server for this one has a handshake in both eras.
HANDSHAKE_ONLY = ("json-schema-ref-no-deref",)
REDIRECT = "http://localhost:3000/callback"

# Python without its libraries starts in a few milliseconds.
FORWARD = """
import json, os, socket, sys
names = ("SCENARIO", "CONTEXT", "PROTOCOL_VERSION")
told = {name.lower(): os.environ.get("MCP_CONFORMANCE_" + name) for name in names}
with socket.socket(socket.AF_UNIX) as wire:
    wire.connect(sys.argv[1])
    wire.sendall(json.dumps({**told, "address": sys.argv[2]}).encode() + b"\\n")
    said = wire.makefile().read()
print(said)
sys.exit("Traceback" in said)
"""


@contextmanager
def forwarding_command(directory: Path) -> Iterator[str]:
    """The command for the suite. The process behind it runs until the block ends."""
    program, place = directory / "forward.py", directory / "socket"
    program.write_text(FORWARD)
    with socketserver.ThreadingUnixStreamServer(str(place), _Asked) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield shlex.join([sys.executable, "-I", "-S", str(program), str(place)])
        finally:
            server.shutdown()


_turns = threading.Semaphore(4)
"""The suite begins all scenarios at once, and a busy machine would not answer in time."""


class _Asked(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        told = json.loads(self.rfile.readline())
        try:
            with _turns:
                said = asyncio.run(Scenario(told).play())
        except Exception:  # noqa: BLE001 - the suite reads it
            said = traceback.format_exc()
        self.wfile.write(said.encode())


class Storage:
    """Tokens and registrations, for as long as the program runs."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Browser:
    """Follows the redirects to the authorization code, as a browser would."""

    def __init__(self) -> None:
        self._answer: dict[str, list[str]] = {}

    async def open(self, address: str) -> None:
        async with httpx2.AsyncClient() as client:
            response = await client.get(address)
        self._answer = parse_qs(urlsplit(response.headers["location"]).query)

    async def answer(self) -> AuthorizationCodeResult:
        given = {name: values[0] for name, values in self._answer.items()}
        return AuthorizationCodeResult(
            code=given["code"], state=given.get("state"), iss=given.get("iss")
        )


class Scenario:
    """One scenario of the suite."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.name: str = told["scenario"] or ""
        self.context: dict[str, Any] = json.loads(told["context"] or "{}")
        self.address: str = told["address"]
        modern = told["protocol_version"] == "2026-07-28" and self.name not in HANDSHAKE_ONLY
        self.protocol: Any = "2026-07-28" if modern else "2025-11-25"

    async def play(self) -> str:
        """Lists the tools and calls them; returns their results."""
        auth = self.authorization()
        options: Any = {"auth": auth} if auth else {}
        with tempfile.TemporaryDirectory() as state:
            async with windlass.mcp(
                self.address, name="", protocol=self.protocol, state_dir=state, **options
            ) as toolset:
                return await self.drive(toolset)

    async def drive(self, toolset: McpToolset) -> str:
        tools = [*await toolset.list_tools()]
        said: list[str] = []
        async with AsyncClient(ScriptedModel([]), approve=self.approve) as client:
            for call in self.calls(tools):
                (response,) = await client.execute([call], tools=[toolset])
                said.append(f"{call.name}: {response.response}")
        return "\n".join(said)

    def approve(self, question: FunctionCall) -> Approval:
        """Accepts every form with its defaults."""
        return Approval(True, {"confirmed": True} if self.name.startswith("sep-2322") else None)

    def calls(self, tools: list[Tool]) -> list[FunctionCall]:
        """The calls of the scenario: those that it names, or every tool with its required
        arguments."""
        by_name = {tool.name: tool for tool in tools}
        if wanted := self.context.get("toolCalls"):
            return [
                Part.from_function_call(call["name"], call.get("arguments"))
                for call in wanted
                if call["name"] in by_name
            ]
        if "json_schema_echo" in by_name:
            schema = parameters(by_name["json_schema_2020_12_tool"])
            return [Part.from_function_call("json_schema_echo", {"schema": schema})]
        return [Part.from_function_call(name, arguments(tool)) for name, tool in by_name.items()]

    def authorization(self) -> httpx2.Auth | None:
        client_id, secret = self.context.get("client_id"), self.context.get("client_secret")
        if self.name == "auth/client-credentials-basic":
            return ClientCredentialsOAuthProvider(
                self.address, Storage(), client_id or "", secret or ""
            )
        if self.name == "auth/client-credentials-jwt":
            signed = SignedJWTParameters(
                issuer=client_id or "",
                subject=client_id or "",
                signing_algorithm=self.context.get("signing_algorithm", "ES256"),
                signing_key=self.context["private_key_pem"],
            )
            provider = signed.create_assertion_provider()
            return PrivateKeyJWTOAuthProvider(self.address, Storage(), client_id or "", provider)
        if not self.name.startswith("auth/"):
            return None
        storage, browser = Storage(), Browser()
        if client_id:
            storage.client = OAuthClientInformationFull(
                client_id=client_id,
                client_secret=secret,
                redirect_uris=[AnyUrl(REDIRECT)],
                token_endpoint_auth_method="client_secret_basic" if secret else "none",
            )
        return OAuthClientProvider(
            self.address,
            OAuthClientMetadata(client_name="windlass", redirect_uris=[AnyUrl(REDIRECT)]),
            storage,
            browser.open,
            browser.answer,
            client_metadata_url="https://conformance-test.local/client-metadata.json",
        )


def parameters(tool: Tool) -> dict[str, Any]:
    declared = tool.declaration
    assert isinstance(declared, FunctionDeclaration)
    return declared.parameters


def arguments(tool: Tool) -> dict[str, Any]:
    samples = {"string": "x", "integer": 5, "number": 3, "boolean": True, "object": {}, "array": []}
    properties = parameters(tool).get("properties", {})
    return {
        name: samples.get(properties.get(name, {}).get("type"), "x")
        for name in parameters(tool).get("required", ())
    }
