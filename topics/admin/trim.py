"""Trims a topic in the admin: shows the loss first, then deletes like the API's delete (docs/wire.md)."""

from __future__ import annotations

from typing import Any, NamedTuple

from django import forms
from django.contrib import messages
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from base.clock import now_ms
from base.errors import InvalidRequest, TopicsError
from base.names import after_prefix
from base.units import amount, size
from store.script import run
from topics import audit
from topics.admin.pages import DomainAdmin, as_struct, refused
from topics.delete.records import Delete, delete_records
from topics.models import Topic
from topics.read.diff import check_match

# Two index probes if the topic is plain.
LOST_BEFORE = """
SELECT e.records, e.bytes FROM topics_topichead h
 CROSS JOIN LATERAL topic_extent(h.topic_id, h.floor_seq + 1, least(%(before)s - 1, h.head_seq), h.holes_seq) e
 WHERE h.topic_id = %(id)s
"""
# Uses the index on the tag: own records, and records that spans show with their tags. Needs no lock, because it deletes nothing.
LOST_MATCHING = """
SELECT count(*), coalesce(sum(size), 0) FROM (
    SELECT r.size FROM topics_topichead h JOIN topics_record r USING (topic_id)
     WHERE h.topic_id = %(id)s AND r.seq > h.floor_seq AND r.seq < %(before)s AND NOT r.deleted AND {tagged}
    UNION ALL
    SELECT r.size FROM topics_topichead h JOIN topics_span s USING (topic_id)
     CROSS JOIN LATERAL (
         SELECT size FROM topics_record r
          WHERE r.topic_id = s.home_id AND r.seq >= s.home_first_seq + greatest(h.floor_seq + 1 - s.first_seq, 0)
            AND r.seq <= s.home_last_seq - greatest(s.last_seq - %(before)s + 1, 0) AND {tagged}
         OFFSET 0) r
     WHERE h.topic_id = %(id)s AND s.last_seq > h.floor_seq AND s.first_seq < %(before)s AND s.shown AND s.keep_tag) r
"""
EVERYTHING = 2**62


class Lost(NamedTuple):
    records: int
    bytes: int

    def __str__(self) -> str:
        return f"{amount(self.records)} records, {size(self.bytes)} of payload"


class TrimForm(forms.Form):
    before_seq = forms.IntegerField(
        required=False, label="Before seq", help_text="Deletes records with a lower seq. Empty: no limit by seq."
    )
    op = forms.ChoiceField(
        required=False,
        label="Tag",
        choices=[("", "any tag or none"), ("Eq", "is exactly"), ("Glob", "matches, with one * at the end")],
    )
    tag = forms.CharField(required=False, label="The tag", strip=False, widget=forms.TextInput(attrs={"size": 40}))

    wanted: Delete

    def clean(self) -> dict[str, Any]:
        """Checks the values like the API, with the API's messages."""
        cleaned: dict[str, Any] = self.cleaned_data
        match = ["tag", cleaned["op"], cleaned["tag"]] if cleaned.get("op") and "tag" in cleaned else None
        try:
            if cleaned.get("tag") and match is None:
                raise InvalidRequest("choose how the tag must match")
            self.wanted = as_struct({"before_seq": cleaned.get("before_seq"), "match": match}, Delete)
            if self.wanted.before_seq is None and self.wanted.match is None and not self.errors:
                raise InvalidRequest("enter a seq, a tag, or both")
            check_match(self.wanted.match)
        except TopicsError as error:
            self.add_error(None, error.message)
        return cleaned


def lost_by_trim(topic: Topic, wanted: Delete) -> Lost:
    """Returns the loss if the topic were trimmed now."""
    before = EVERYTHING if wanted.before_seq is None else wanted.before_seq
    op, literal = check_match(wanted.match)
    arguments = {"id": topic.pk, "before": min(before, EVERYTHING), "tag": literal}
    if op is None or literal is None:
        statement = LOST_BEFORE
    elif op == "Eq":
        statement = LOST_MATCHING.format(tagged="r.tag = %(tag)s")
    else:
        end = arguments["end"] = after_prefix(literal)
        statement = LOST_MATCHING.format(tagged="r.tag >= %(tag)s" + ("" if end is None else " AND r.tag < %(end)s"))
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return Lost(*cursor.fetchone())


def trim(admin: DomainAdmin, request: HttpRequest, id: int) -> HttpResponse:
    """Shows a form. After the form is sent, shows the loss. After a confirmation, deletes."""
    topic = admin.found(request, id, admin.has_delete_permission)
    form = TrimForm(request.POST or None)
    lost = None
    if request.method == "POST" and form.is_valid():
        if "confirmed" in request.POST:
            return trim_now(admin, request, topic, form.wanted)
        lost = lost_by_trim(topic, form.wanted)
    held = Lost(topic.head.count, topic.head.bytes)
    shown = {"subtitle": str(topic), "original": topic, "form": form, "lost": lost, "held": held}
    return admin.page(request, "topics/topic/trim", "Trim topic", **shown)


def trim_now(admin: DomainAdmin, request: HttpRequest, topic: Topic, wanted: Delete) -> HttpResponse:
    try:
        # In no transaction of its own: a long delete commits each step, and appends need not wait for all of them.
        done = run(delete_records(topic.name, wanted.before_seq, wanted.match, now_ms()))
        asked = {"before_seq": wanted.before_seq, "match": wanted.match}
        run(audit.note("delete", "records", topic.name, after={**asked, "deleted": done.deleted}))
    except TopicsError as error:
        return refused(request, error)
    left = Lost(done.count, done.bytes)
    admin.log_change(request, topic, f"Trimmed: {amount(done.deleted)} records deleted ({wanted}).")
    messages.success(request, f"{amount(done.deleted)} records of {topic} were deleted. It holds {left}.")
    return HttpResponseRedirect(reverse("admin:topics_topic_change", args=[topic.pk]))
