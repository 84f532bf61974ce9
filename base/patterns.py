"""Patterns of names, in configurations and calls."""

from __future__ import annotations


def matches(pattern: str, name: str) -> bool:
    """Returns whether a name matches a pattern: a name, or a prefix that ends in `*`."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def is_pattern(text: str) -> bool:
    """Returns whether a text is a name or a prefix that ends in `*`."""
    return "*" not in text[:-1] and bool(text)


def overlap(pattern: str, other: str) -> bool:
    """Returns whether a name can match both patterns."""
    if not other.endswith("*"):
        return matches(pattern, other)
    begin = other[:-1]
    return pattern.removesuffix("*").startswith(begin) or (pattern.endswith("*") and begin.startswith(pattern[:-1]))
