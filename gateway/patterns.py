"""Patterns of names, as configurations write them."""

from __future__ import annotations


def matches(pattern: str, name: str) -> bool:
    """A pattern is a name, or the beginning of names with one `*` behind it."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def is_pattern(text: str) -> bool:
    """Whether a text can stand for a name or a beginning."""
    return "*" not in text[:-1] and bool(text)
