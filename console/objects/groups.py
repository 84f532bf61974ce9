"""A topic's page of consumer groups: members, shares, their cursors and their lags."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse

from base.clock import now_ms
from console.objects.topic import around, found
from console.site import Console
from groups.groups import GroupState, Member, page_of_groups
from store.script import run

MOST_GROUPS = 20


class MemberRow(NamedTuple):
    """A member, and the numbers of its shares."""

    member: Member
    shares: list[int]


def page(site: Console, request: HttpRequest, name: str) -> HttpResponse:
    """Returns the page. `after`: the last group of the page before."""
    topic, now = found(name), now_ms()
    groups, _ = run(page_of_groups(name, request.GET.get("after", ""), MOST_GROUPS + 1, now))
    shown = [row(state) for state in groups[:MOST_GROUPS]]
    following = groups[MOST_GROUPS - 1].group.name if len(groups) > MOST_GROUPS else None
    context = {**around(topic, "groups"), "state": topic.state, "groups": shown, "following": following}
    return site.page(request, "console/groups.html", **context)


def row(state: GroupState) -> dict[str, Any]:
    shares: dict[str | None, list[int]] = {}
    for share in state.shares:
        shares.setdefault(share.member, []).append(share.share)
    return {
        "group": state.group,
        "lag": state.lag,
        "oldest_ms": state.oldest_unread_ms,
        "members": [MemberRow(each, shares.get(each.name, [])) for each in state.members],
        "shares": state.shares,
    }
