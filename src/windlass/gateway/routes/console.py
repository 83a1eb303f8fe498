"""The console: a page at `/`, served out of the package. It holds no secrets, and asks for none."""

import functools
import gzip
import hashlib
import re
from importlib import resources

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

__all__ = ["PAGES", "Console"]

PAGES = ("/", "/chats/{chat_id}", "/runs", "/runs/{run_id}", "/tools", "/tools/{name}", "/replay")
"""The addresses of the page's own views: a link to one of them begins with the whole page."""
INDEX = "index.html"

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

SAFETY = {
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
"""What a model or a tool has written stands on the page: whatever it is, it runs nothing."""

_NEVER = re.compile(r"q=0(\.0*)?")


class Asset(Struct, frozen=True):
    """A file of the page, as it goes over the wire."""

    plain: bytes
    packed: bytes
    kind: str
    hash: str


class Console:
    """The page's files, which a process reads and packs once."""

    def __init__(self) -> None:
        self._assets = _assets()

    def routes(self) -> list[Route]:
        """Everything that belongs to the page."""
        pages = [Route(path, self.page, include_in_schema=False) for path in PAGES]
        return [*pages, Route("/console/{path:path}", self.asset, include_in_schema=False)]

    async def page(self, request: Request) -> Response:
        return _answer(self._assets[INDEX], request)

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


def _answer(asset: Asset, request: Request) -> Response:
    packed = accepts_gzip(request.headers.get("accept-encoding", ""))
    tag = f'"{asset.hash}{"-gzip" if packed else ""}"'
    headers = {**SAFETY, "cache-control": "no-cache", "etag": tag, "vary": "Accept-Encoding"}
    if is_known(tag, request.headers.get("if-none-match", "")):
        return Response(None, 304, headers)
    headers["content-type"] = asset.kind
    if packed:
        headers["content-encoding"] = "gzip"
    return Response(asset.packed if packed else asset.plain, 200, headers)


def accepts_gzip(header: str) -> bool:
    """Whether an `Accept-Encoding` takes gzip: named, or as one of any, and not ruled out."""
    offers = (each.replace(" ", "").partition(";") for each in header.lower().split(","))
    weights = {coding: weight for coding, _, weight in offers}
    weight = weights.get("gzip", weights.get("*"))
    return weight is not None and _NEVER.fullmatch(weight) is None


def is_known(tag: str, header: str) -> bool:
    """Whether an `If-None-Match` names this entity tag."""
    tags = [each.strip().removeprefix("W/") for each in header.split(",")]
    return tag in tags or tags == ["*"]
