"""GET /docs/…: the pages of docs/ as HTML, as they are for this version. A page has the path of its file: /docs/guides/backup.md.

The pages need no login and no key, because the project publishes them. No query runs: they work while PostgreSQL is unavailable.
"""

from __future__ import annotations

import html
import mimetypes
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import markdown
import yaml
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import mark_safe
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

FOLDER = settings.TEMPLATES_DIR.parent / "docs"
OUTLINE = settings.TEMPLATES_DIR.parent / "mkdocs.yml"
EXTENSIONS = ("tables", "attr_list", "md_in_html", "toc", "fenced_code")
ADDRESS = re.compile(r"(?:(http|ws)://)?(?:localhost|127\.0\.0\.1):4000")
SECTION = re.compile(r'<h[1-6] id="([^"]+)">(.*?)</h[1-6]>', re.DOTALL)
TAG = re.compile(r"<[^>]+>")
MOST_FOUND, MOST_LINE = 50, 200


class Document(NamedTuple):
    """A page in the outline. `path` is relative to docs/."""

    path: str
    title: str


class Found(NamedTuple):
    """A section that contains all words of a search."""

    url: str
    page: str
    section: str
    line: str


@lru_cache(1)
def outline() -> list[tuple[str, list[Document]]]:
    """Returns the titles of the chapters with their pages, from `nav` of mkdocs.yml."""
    nav = yaml.safe_load(OUTLINE.read_text())["nav"]
    return [
        (chapter, [Document(path, title) for page in pages for title, path in page.items()])
        for part in nav
        for chapter, pages in part.items()
    ]


def documents() -> Iterator[Document]:
    return (page for _, pages in outline() for page in pages)


@lru_cache(1)
def images() -> frozenset[str]:
    return frozenset(f"images/{file.name}" for file in (FOLDER / "images").iterdir())


@lru_cache(100)
def body(path: str) -> str:
    """Returns a page of docs/ as HTML. The text is the project's own, so nothing in it is escaped."""
    return markdown.markdown((FOLDER / path).read_text(), extensions=EXTENSIONS)


def addressed(page: str, request: HttpRequest) -> str:
    """Returns the HTML of a page with this server's address in the examples."""
    origin = request.build_absolute_uri("/").rstrip("/")
    return ADDRESS.sub(lambda found: origin.replace("http", "ws", 1) if found[1] == "ws" else origin, page)


@csrf_exempt  # a POST gets 405 instead of an error about a token
@require_safe
def document(request: HttpRequest, path: str = "") -> HttpResponse:
    """Returns a page, an image of a page, or with `?q=` the sections that contain all words of `q`. Raises Http404."""
    if path in images():
        return HttpResponse((FOLDER / path).read_bytes(), content_type=mimetypes.guess_type(path)[0])
    page = next((each for each in documents() if each.path == (path or "index.md")), None)
    if page is None:
        raise Http404(path)
    context = {"outline": outline(), "page": page, "version": settings.VERSION}
    if words := request.GET.get("q", "").lower().split():
        context |= {"q": request.GET["q"], "found": search(words)}
    else:
        context |= {"body": mark_safe(addressed(body(page.path), request))}
    return render(request, "console/document.html", context)


def search(words: list[str]) -> list[Found]:
    """Returns at most MOST_FOUND sections with all words. Sections with a word in the heading come first."""
    found = [each for page in documents() for each in sections(page, words)]
    return sorted(found, key=lambda each: not any(word in each.section.lower() for word in words))[:MOST_FOUND]


def sections(page: Document, words: list[str]) -> Iterator[Found]:
    _, *parts = SECTION.split(body(page.path))
    for anchor, heading, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        heading, text = plain(heading), plain(f"{heading}\n{text}")
        lowered = text.lower()
        if all(word in lowered for word in words):
            line = next(line for line in text.splitlines() if words[0] in line.lower())
            yield Found(f"/docs/{page.path}#{anchor}", page.title, heading, line.strip()[:MOST_LINE])


def plain(text: str) -> str:
    return html.unescape(TAG.sub("", text))
