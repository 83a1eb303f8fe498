"""Checks the built site: links, anchors, requests to other hosts, and the weight of its pages.

    python scripts/site_check.py [FOLDER]      build/site by default

Exits with 1 and lists the problems if there are any.
"""

import gzip
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).parents[1] / "build" / "site"
HEAVIEST = 600_000
"""The maximum compressed size of a page, in bytes, with everything that it loads."""
LOADED = {"link": "href", "script": "src", "img": "src", "source": "srcset", "iframe": "src"}
LOADED_RELATIONS = ("stylesheet", "icon", "preload", "modulepreload", "manifest")


class Page(NamedTuple):
    path: Path
    ids: set[str]
    links: list[str]
    loads: list[str]
    escapes: int
    """Finds visible backslashes before a bar."""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.ids.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        is_loaded = tag != "link" or values.get("rel", "") in LOADED_RELATIONS
        if is_loaded and values.get(LOADED.get(tag, "")):
            self.loads.append(values[LOADED[tag]])


def read(path: Path) -> Page:
    reader = _Reader()
    text = path.read_text("utf-8")
    reader.feed(text)
    escapes = len(re.findall(r"<td><code>[^<]*\\\|", text))
    return Page(path, reader.ids, reader.links, reader.loads, escapes)


def pages(site: Path) -> dict[Path, Page]:
    return {path: read(path) for path in sorted(site.rglob("*.html"))}


def target_of(site: Path, page: Path, link: str) -> Path:
    """Returns the file that a link within the site refers to."""
    path = unquote(urlsplit(link).path)
    found = site / path.lstrip("/") if path.startswith("/") else page.parent / path
    found = found.resolve()
    return found / "index.html" if found.is_dir() else found


def problems(site: Path, known: dict[Path, Page]) -> list[str]:
    found: list[str] = []
    by_path = {path.resolve(): page for path, page in known.items()}
    for path, page in known.items():
        name = str(path.relative_to(site))
        if name == "404.html":  # its links are relative to the published address
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path.resolve() if not parts.path else target_of(site, path, link)
            if not target.exists():
                found.append(f"{name}: dead link {link}")
            elif (
                parts.fragment
                and target in by_path
                and unquote(parts.fragment) not in by_path[target].ids
            ):
                found.append(f"{name}: no such heading {link}")
        if page.escapes:
            found.append(f"{name}: {page.escapes} tables show a backslash before a bar")
        for load in page.loads:
            parts = urlsplit(load)
            if parts.scheme in ("http", "https") or parts.netloc:
                found.append(f"{name}: loads from another host: {load}")
            elif parts.scheme != "data" and not target_of(site, path, load).exists():
                found.append(f"{name}: missing file {load}")
        if weight(site, page) > HEAVIEST:
            found.append(f"{name}: {weight(site, page):,} bytes")
    return found


def weight(site: Path, page: Page) -> int:
    """Returns the compressed size of a page and of what it loads, in bytes."""
    files = {target_of(site, page.path, each) for each in page.loads if "://" not in each}
    return sum(_compressed(path) for path in (page.path, *files) if path.is_file())


def _compressed(path: Path) -> int:
    content = path.read_bytes()
    return len(content) if path.suffix in (".png", ".woff2") else len(gzip.compress(content))


def main() -> int:
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else SITE
    known = pages(site)
    found = problems(site, known)
    for problem in found:
        print(problem, file=sys.stderr)
    links = sum(len(page.links) for page in known.values())
    weights = {page.path: weight(site, page) for page in known.values()}
    heaviest = max(weights, key=lambda path: weights[path])
    print(
        f"{len(known)} pages, {links:,} links, {len(found)} problems; "
        f"first page {weights[site / 'index.html'] / 1000:.0f} kB, "
        f"heaviest {weights[heaviest] / 1000:.0f} kB ({heaviest.parent.relative_to(site)}); "
        f"search index {_compressed(site / 'search.json') / 1000:.0f} kB, once"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
