"""Checks of the labels of records: tags, and the names of nodes (docs/wire.md). The bounds are settings."""

from __future__ import annotations

from django.conf import settings

from base.bounds import check_token

# The settings are read once, because the lookup of a setting takes longer than the check of a name.
MAX_TAG_BYTES, MAX_NODE_BYTES = settings.TOPICS_MAX_TAG_BYTES, settings.TOPICS_MAX_NODE_BYTES


def check_node(node: str) -> None:
    check_token("node", node, MAX_NODE_BYTES)


def check_tag(tag: str) -> None:
    check_token("tag", tag, MAX_TAG_BYTES)
