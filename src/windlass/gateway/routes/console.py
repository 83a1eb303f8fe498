"""The console: a web page at `/`, served from the package. Its files contain no secrets."""

import functools
import gzip
import hashlib
import re
from importlib import resources

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

PAGES = ("/", "/chats/{chat_id}", "/runs", "/runs/{run_id}", "/tools", "/tools/{name}", "/replay")
"""Paths of the console's views. Each of them serves the same page."""
INDEX = "index.html"
API_PATHS = ("/v1", "/health", "/metrics", "/openapi.json", "/console/")
"""The paths below which an unknown address gets an error in JSON, since a program requested it."""

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""The headers of the page. They prevent that text of models and tools runs as a script."""

_ZERO_WEIGHT = re.compile(r"q=0(\.0*)?")


class Asset(Struct, frozen=True):
    """A file of the page, plain and compressed."""

    plain: bytes
    gzipped: bytes
    kind: str
    hash: str


class _UnknownPage(Route):
    """Matches unknown addresses that a person opens in a browser, except those of the API."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        accept = dict(scope.get("headers", ())).get(b"accept", b"")
        is_page = b"text/html" in accept and scope.get("method") in ("GET", "HEAD")
        if not is_page or path.startswith(API_PATHS):
            return Match.NONE, {}
        return super().matches(scope)


class Console:
    """Serves the page's files, which a process reads and compresses once."""

    def __init__(self) -> None:
        self._assets = _assets()

    def routes(self) -> list[Route]:
        pages = [Route(path, self.page, include_in_schema=False) for path in PAGES]
        files = Route("/console/{path:path}", self.asset, include_in_schema=False)
        return [*pages, files, _UnknownPage("/{path:path}", self.missing, include_in_schema=False)]

    async def page(self, request: Request) -> Response:
        return _answer(self._assets[INDEX], request)

    async def missing(self, request: Request) -> Response:
        """The page for an unknown address, with links to the others."""
        return _answer(self._assets[INDEX], request, status=404)

    async def asset(self, request: Request) -> Response:
        found = self._assets.get(request.path_params["path"])
        if found is None:
            raise HTTPException(404)
        return _answer(found, request)


@functools.cache
def _assets() -> dict[str, Asset]:
    folder = resources.files("windlass.gateway") / "static"
    found: dict[str, Asset] = {}
    for file in folder.iterdir():
        kind = TYPES.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            data = file.read_bytes()
            digest = hashlib.sha256(data).hexdigest()[:32]
            found[file.name] = Asset(data, gzip.compress(data, mtime=0), kind, digest)
    return found


def _answer(asset: Asset, request: Request, status: int = 200) -> Response:
    gzipped = accepts_gzip(request.headers.get("accept-encoding", ""))
    tag = f'"{asset.hash}{"-gzip" if gzipped else ""}"'
    caching = {"cache-control": "no-cache", "etag": tag, "vary": "Accept-Encoding"}
    headers = {**SECURITY_HEADERS, **caching}
    if status == 200 and matches_tag(tag, request.headers.get("if-none-match", "")):
        return Response(None, 304, headers)
    headers["content-type"] = asset.kind
    if gzipped:
        headers["content-encoding"] = "gzip"
    return Response(asset.gzipped if gzipped else asset.plain, status, headers)


def accepts_gzip(header: str) -> bool:
    """Whether an `Accept-Encoding` header allows gzip, by name or by `*`, with a weight above 0."""
    entries = (entry.replace(" ", "").partition(";") for entry in header.lower().split(","))
    weights = {coding: weight for coding, _, weight in entries}
    weight = weights.get("gzip", weights.get("*"))
    return weight is not None and _ZERO_WEIGHT.fullmatch(weight) is None


def matches_tag(tag: str, header: str) -> bool:
    """Whether an `If-None-Match` header names this entity tag."""
    tags = [entry.strip().removeprefix("W/") for entry in header.split(",")]
    return tag in tags or tags == ["*"]
