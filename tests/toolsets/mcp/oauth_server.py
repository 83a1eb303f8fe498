"""An MCP server with OAuth, in a thread of the test: its tool `whoami` tells whose token it got."""

import secrets
import socket
import threading
from types import TracebackType
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route


class OAuthServer:
    """An authorization server and a resource server in one."""

    def __init__(self) -> None:
        self.person = "nobody"
        """Who is at the browser or the device."""
        self.approves = True
        self.polls = 0
        self.refreshes: list[str] = []
        self.lifetime = 3600
        self._codes: dict[str, str] = {}
        self._access: dict[str, str] = {}
        self._refresh: dict[str, str] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.root = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = f"{self.root}/mcp"

    def revoke_access(self) -> None:
        """Ends all access tokens, but no refresh token."""
        self._access.clear()

    def revoke_all(self) -> None:
        self._access.clear()
        self._refresh.clear()

    def __enter__(self) -> "OAuthServer":
        self._server = uvicorn.Server(uvicorn.Config(self._app(), log_config=None, ws="none"))
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()

    def _app(self) -> Any:
        server = MCPServer("guarded")

        @server.tool()
        async def whoami(context: Context) -> str:
            """Whose token the request has."""
            request: Any = context.request_context.request
            return self._access[request.headers["authorization"].removeprefix("Bearer ")]

        tools = server.streamable_http_app()

        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["path"] == "/mcp":
                headers = dict(scope["headers"])
                token = headers.get(b"authorization", b"").decode().removeprefix("Bearer ")
                if token not in self._access:
                    where = f"{self.root}/.well-known/oauth-protected-resource"
                    challenge = {"WWW-Authenticate": f'Bearer resource_metadata="{where}"'}
                    await Response("no", 401, challenge)(scope, receive, send)
                    return
            await tools(scope, receive, send)

        routes = [
            Route("/.well-known/oauth-protected-resource", self._resource),
            Route("/.well-known/oauth-authorization-server", self._metadata),
            Route("/register", self._register, methods=["POST"]),
            Route("/authorize", self._authorize),
            Route("/device", self._device, methods=["POST"]),
            Route("/token", self._token, methods=["POST"]),
            Mount("/", guarded),
        ]
        lifespan: Any = tools.router.lifespan_context
        return Starlette(routes=routes, lifespan=lambda _: lifespan(tools))

    async def _resource(self, _: Request) -> Response:
        return JSONResponse({"resource": self.url, "authorization_servers": [self.root]})

    async def _metadata(self, _: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.root,
                "authorization_endpoint": f"{self.root}/authorize",
                "token_endpoint": f"{self.root}/token",
                "registration_endpoint": f"{self.root}/register",
                "device_authorization_endpoint": f"{self.root}/device",
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "response_types_supported": ["code"],
            }
        )

    async def _register(self, request: Request) -> Response:
        asked = await request.json()
        return JSONResponse({**asked, "client_id": secrets.token_hex(4)}, 201)

    async def _authorize(self, request: Request) -> Response:
        query = request.query_params
        answer = f"state={query['state']}"
        if self.approves:
            code = secrets.token_hex(8)
            self._codes[code] = self.person
            answer += f"&code={code}"
        else:
            answer += "&error=access_denied"
        return RedirectResponse(f"{query['redirect_uri']}?{answer}")

    async def _device(self, _: Request) -> Response:
        code = secrets.token_hex(8)
        self._codes[code] = self.person
        return JSONResponse(
            {
                "device_code": code,
                "user_code": "ABCD-EFGH",
                "verification_uri": f"{self.root}/activate",
                "expires_in": 60,
                "interval": 0.01,
            }
        )

    async def _token(self, request: Request) -> Response:
        form = await request.form()
        match form["grant_type"]:
            case "refresh_token":
                self.refreshes.append(str(form["refresh_token"]))
                person = self._refresh.get(str(form["refresh_token"]))
            case "authorization_code":
                person = self._codes.pop(str(form["code"]), None)
            case _:
                self.polls += 1
                if self.polls < 3:
                    return JSONResponse({"error": "authorization_pending"}, 400)
                person = self._codes.pop(str(form["device_code"]), None)
        if person is None:
            return JSONResponse({"error": "invalid_grant"}, 400)
        access, refresh = secrets.token_hex(8), secrets.token_hex(8)
        self._access[access], self._refresh[refresh] = person, person
        return JSONResponse(
            {
                "access_token": access,
                "token_type": "Bearer",
                "expires_in": self.lifetime,
                "refresh_token": refresh,
            }
        )
