"""The list of topics: the topics of the default route, and each spliced topic once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from base.errors import TopicNotFound
from gateway.api import Request, Response, RouterContext, without
from gateway.blocks import Listed, merged_list, page_size, without_partial
from gateway.rewrite.identifiers import parameter
from gateway.rewrite.names import Raws
from gateway.routers.splice.calls import whole
from gateway.routers.splice.segments import SegmentRefused
from gateway.routers.splice.topic import Spliced

SPLICED = ""  # key of the spliced topics' part of the list; no route has this name
ENTRY = ("topic", "head_seq", "earliest_seq", "count", "bytes", "effective_priority")


async def list_topics(
    topics: Mapping[str, Spliced], default: str | None, context: RouterContext, request: Request
) -> Response:
    """Returns one page. Raises RoutesFailed, InvalidRequest."""
    plain = without_partial(request)
    plain = plain.replace(headers=without(plain.headers, b"accept-encoding"))
    parts = {SPLICED: Listed(plain, same, partial(spliced_page, topics, context))}
    if default is not None:
        parts[default] = Listed(plain, partial(without_spliced, topics))
    return await merged_list(context, request, parts, "topics", "topic")


async def same(response: Response) -> Response:
    return response


async def without_spliced(topics: Mapping[str, Spliced], response: Response) -> Response:
    """Returns a page of the default route without topics that have a spliced topic's name."""
    body = await response.decoded(Raws)
    kept = [
        each
        for each in msgspec.json.decode(body["topics"], type=list[Raws])
        if msgspec.json.decode(each["topic"]) not in topics
    ]
    return response.replace(body=msgspec.json.encode({**body, "topics": kept}))


async def spliced_page(topics: Mapping[str, Spliced], context: RouterContext, request: Request) -> Response:
    """Returns a page of the spliced topics.

    Topics that are absent or hidden from the client are left out. Raises TopicsError.
    """
    after, prefix = parameter(request.query, "cursor") or "", parameter(request.query, "prefix") or ""
    names = sorted(name for name in topics if name.startswith(prefix) and name > after)
    page = names[: page_size(request)]
    entries = []
    for name in page:
        try:
            told = await whole(topics[name], context, request)
        except (TopicNotFound, SegmentRefused):
            continue
        entries.append({**{key: told[key] for key in ENTRY}, "durable": told["config"]["durable"]})
    return Response.json(200, {"topics": entries, **({"next_cursor": page[-1]} if len(names) > len(page) else {})})
