"""GET /docs/: every page of docs/, links and anchors among them, the search, and nothing but docs/."""

from __future__ import annotations

import html
import re
from urllib.parse import quote_plus, urljoin, urlsplit

import pytest
from django.test import Client

from console import documents
from tests.instances import ROOT

PAGES = [page.path for page in documents.documents()]
TAG = re.compile(r'<(?:a|img)\b[^>]*?(?:href|src)="([^"]+)"')


def page(path: str) -> str:
    answer = Client().get(path, headers={"host": "localhost:4321"})
    assert answer.status_code == 200, path
    return answer.content.decode()


def test_every_file_has_a_page() -> None:
    assert sorted(PAGES) == sorted(str(file.relative_to(ROOT / "docs")) for file in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("path", PAGES)
def test_links_of_a_page_lead_to_pages_and_anchors(path: str) -> None:
    found = [urlsplit(urljoin(f"/docs/{path}", link)) for link in TAG.findall(documents.body(path))]
    for link in found:
        if link.netloc:
            continue
        name = link.path.removeprefix("/docs/")
        assert name in PAGES or name in documents.images(), link.path
        assert not link.fragment or f'id="{link.fragment}"' in documents.body(name), f"{name}#{link.fragment}"


def test_examples_have_the_address_of_this_server() -> None:
    text = page("/docs/")
    assert "curl http://localhost:4321/v0/topics/orders" in text
    assert ":4000" not in text
    assert 'connect("ws://localhost:4321/v0/ws")' in html.unescape(page("/docs/websocket.md"))
    assert 'href="/docs/guides/backup.md"' in text


def test_an_image_is_an_image() -> None:
    answer = Client().get("/docs/images/topic.svg")
    assert (answer.headers["content-type"], answer.content[:4]) == ("image/svg+xml", b"<svg")


@pytest.mark.parametrize("path", ["style.css", "nothing.md", "../README.md", "images/", "guides", "images/../wire.md"])
def test_nothing_else_is_served(path: str) -> None:
    assert Client().get(f"/docs/{path}").status_code == 404


def test_it_is_read_only() -> None:
    assert Client().post("/docs/").status_code == 405


def test_a_search_finds_sections_with_all_words() -> None:
    for words in ("lease EXTEND", "python", "curl", "OTEL_TRACES_SAMPLER"):
        sections = re.findall(r'<h2><a href="/docs/([^"#]+)#([^"]*)">', page(f"/docs/?q={quote_plus(words)}"))
        assert sections, words
        assert [name for name, anchor in sections if f'id="{anchor}"' not in documents.body(name)] == []
        assert words != "lease EXTEND" or "queues.md" in [name for name, _ in sections]
    assert "No section contains" in page("/docs/?q=lease+zzzz")
    assert "<script>" not in page("/docs/?q=<script>")
