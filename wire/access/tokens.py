"""The key in a query, `?token=`. Server and gateway read it with one function, so every spelling means the same to both."""

from __future__ import annotations

from urllib.parse import unquote_plus


def token_in(query: str) -> tuple[str | None, str]:
    """Returns the last token of a query, or None, and the query without its tokens. The rest of the query keeps its bytes."""
    token, kept = None, list[str]()
    for field in query.split("&"):
        name, _, value = field.partition("=")
        if unquote_plus(name) == "token":
            token = unquote_plus(value) or token
        else:
            kept.append(field)
    return token, "&".join(kept)
