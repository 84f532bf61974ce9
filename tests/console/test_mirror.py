"""A topic's page shows the sites whose records it gets."""

from __future__ import annotations

import msgspec
from django.test import Client

from base.clock import now_ms
from mirrors.handover import Handover, receive
from store.script import run
from tests.admin.pages import text
from tests.scripts import put_topic
from topics.append.copies import CopiedRecord, CopiedTombstone
from topics.config import Config


def test_a_mirrored_topic_shows_its_sites_and_their_losses(browser: Client, db: None) -> None:
    records = [CopiedRecord(seq=1234, ts=1, data=msgspec.Raw(b"1"))]
    lost = CopiedTombstone(gap_to=1233, reason="cap", earliest_seq=1234)
    wanted = Handover("iad", "fra", 0, 1240, records, lost)
    run(receive("chat", wanted, now_ms()))
    page = browser.get("/admin/topic/chat/").content.decode()
    shown = text(page.partition("<h2>Mirror</h2>")[2].partition("</section>")[0])
    assert "This topic is the site iad" in shown
    assert "fra 1,234 1,240 1,233" in " ".join(shown.split())


def test_only_a_mirrored_topic_has_the_table(browser: Client, db: None) -> None:
    run(receive("chat", Handover("iad", "fra", 0, 0), now_ms()))
    put_topic("plain", Config(), now_ms())
    assert "<h2>Mirror</h2>" in browser.get("/admin/topic/chat/").content.decode()
    assert "<h2>Mirror</h2>" not in browser.get("/admin/topic/plain/").content.decode()
