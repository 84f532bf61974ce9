"""API keys in the admin: the secret once, then never; scopes, prefixes, expiry, rotation, revocation."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse

from base.clock import now_ms
from base.errors import Forbidden, Unauthorized
from tests.admin.pages import errors, rows, text
from topics.models import ApiKey
from wire.access.keys import Key, Keyring, sha256

LIST = reverse("admin:topics_apikey_changelist")
ADD = reverse("admin:topics_apikey_add")


def change(key: ApiKey) -> str:
    return reverse("admin:topics_apikey_change", args=[key.pk])


def create(browser: Client, **fields: str) -> tuple[ApiKey, str]:
    response = browser.post(ADD, {"name": "reader", "read": "on", "prefixes": "", "confirmed": "on", **fields})
    page = response.content.decode()
    assert response.status_code == 200, errors(page)
    assert "no-store" in response["Cache-Control"]
    found = re.search(r'value="(tk_[\w-]{43})"', page)
    assert found, errors(page)
    return ApiKey.objects.get(name=fields.get("name", "reader")), found[1]


def holder(secret: str) -> Key:
    """Who a server takes the holder of this secret for, from now on."""
    ring = Keyring()
    ring.refresh()
    return ring.authenticate(f"Bearer {secret}")


def test_a_new_key_opens_what_it_is_for(browser: Client) -> None:
    key, secret = create(browser, write="on", prefixes="orders:  \r\n  audit")
    assert key.prefixes == "orders:\naudit"
    found = holder(secret)
    assert (found.scopes, found.prefixes) == ({"read", "write"}, ("orders:", "audit"))
    with pytest.raises(Forbidden):
        found.check_name("other")


def test_the_secret_is_never_shown_again(browser: Client) -> None:
    key, secret = create(browser)
    assert bytes(key.secret_sha256) == sha256(secret)
    hidden = [secret, secret[3:], sha256(secret).hex(), str(sha256(secret))]
    history = reverse("admin:topics_apikey_history", args=[key.pk])
    for url in (LIST, change(key), history, reverse("admin:index"), ADD):
        page = browser.get(url).content.decode()
        assert not [each for each in hidden if each in page], url
    assert "reader" in browser.get(LIST).content.decode()
    kept = [str(entry.__dict__) for entry in LogEntry.objects.all()] + [
        str(s.get_decoded()) for s in Session.objects.all()
    ]
    assert not [each for each in kept if secret in each]
    assert secret not in str(browser.cookies)


def test_the_list_is_one_query(browser: Client, queries: Any) -> None:
    create(browser, name="a")
    create(browser, name="b", delete_scope="on", admin="on", prefixes="x")
    with queries(1):
        page = browser.get(LIST).content.decode()
    assert [row[:3] for row in rows(page)] == [["a", "read", "every name"], ["b", "read delete admin", "x"]]
    assert [row[4:] for row in rows(page)] == [["never", "never", "no"]] * 2


def test_a_consumer_commits_and_changes_nothing_else(browser: Client) -> None:
    def scopes(secret: str) -> frozenset[str]:
        ring = Keyring()
        ring.refresh()
        return ring.authenticate(f"Bearer {secret}").scopes

    consumer, secret = create(browser, commit="on")
    assert rows(browser.get(LIST).content.decode())[0][1] == "read commit"
    assert scopes(secret) == {"read", "commit"}
    browser.post(change(consumer), {"name": "reader", "read": "on", "prefixes": ""})
    assert scopes(secret) == {"read"}
    browser.post(change(consumer), {"name": "sender", "read": "on", "webhooks": "on", "prefixes": ""})
    assert scopes(secret) == {"read", "webhooks"}
    _, operators = create(browser, name="operator", admin="on")
    assert scopes(operators) == {"read", "commit", "webhooks", "admin"}


def test_last_use_is_shown(browser: Client) -> None:
    key, secret = create(browser)
    ring = Keyring()
    ring.refresh()
    ring.authenticate(f"Bearer {secret}")
    ring.forget()
    ring.refresh()
    assert ApiKey.objects.get(pk=key.pk).last_used_ts is not None
    assert rows(browser.get(LIST).content.decode())[0][5] != "never"


def test_a_change_counts_and_keeps_the_secret(browser: Client) -> None:
    key, secret = create(browser)
    response = browser.post(change(key), {"name": "writer", "write": "on", "prefixes": "w"})
    assert response.status_code == 302
    found = holder(secret)
    assert (found.scopes, found.prefixes) == ({"write"}, ("w",))
    assert ApiKey.objects.get(pk=key.pk).name == "writer"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": ""}, "This field is required"),
        ({"read": ""}, "The key has no scope"),
        ({"prefixes": "ok\nno/good"}, "Invalid prefix"),
        ({"prefixes": "_x"}, "Invalid prefix"),
        ({"expires_0": "2020-01-01", "expires_1": "00:00:00"}, "The time is in the past"),
        ({"expires_0": "soon", "expires_1": "00:00:00"}, "Enter a valid date"),
    ],
)
def test_it_refuses(browser: Client, fields: dict[str, str], told: str) -> None:
    given = {"name": "k", "read": "on", "prefixes": "", **fields}
    page = browser.post(ADD, {name: value for name, value in given.items() if value}).content.decode()
    assert told in errors(page)
    assert "tk_" not in page
    assert not ApiKey.objects.exists()


def revoke(browser: Client, *keys: ApiKey) -> None:
    chosen = {"action": "revoke", "_selected_action": [key.pk for key in keys]}
    assert browser.post(LIST, {**chosen, "confirmed": "yes"}).status_code == 302


def test_a_revoked_key_opens_nothing(browser: Client) -> None:
    key, secret = create(browser)
    holder(secret)
    revoke(browser, key)
    with pytest.raises(Unauthorized):
        holder(secret)
    with pytest.raises(Unauthorized):  # the last key revoked does not open the server
        holder("")
    assert rows(browser.get(LIST).content.decode())[0][6] != "no"
    assert rows(browser.get(LIST, {"standing": "valid"}).content.decode()) == []
    assert len(rows(browser.get(LIST, {"standing": "revoked"}).content.decode())) == 1


def test_a_revoked_key_stays_so(browser: Client) -> None:
    key, secret = create(browser)
    revoke(browser, key)
    when = ApiKey.objects.get(pk=key.pk).revoked_ts
    assert browser.get(change(key)).status_code == 200
    assert browser.post(change(key), {"name": "x", "read": "on", "prefixes": ""}).status_code == 403
    revoke(browser, key)
    assert ApiKey.objects.get(pk=key.pk).revoked_ts == when
    with pytest.raises(Unauthorized):
        holder(secret)


DAY_MS = 86_400_000


def expiring(moment: str) -> dict[str, str]:
    day, time = moment.split()
    return {"expires_0": day, "expires_1": time}


def test_a_key_expires_by_itself(browser: Client) -> None:
    key, secret = create(browser, **expiring("2999-12-31 23:59:59"))
    assert holder(secret).until_ms == key.expires_ts == 32_503_679_999_000
    assert rows(browser.get(LIST).content.decode())[0][4] == "2999-12-31 23:59:59"
    ring = Keyring()
    ring.refresh()
    found = ring.authenticate(f"Bearer {secret}")
    ApiKey.objects.filter(pk=key.pk).update(expires_ts=now_ms() - 1)
    assert ring.holds(found)  # as of the last look at the keys
    ring.forget()
    ring.refresh()
    assert not ring.holds(found)
    with pytest.raises(Unauthorized):
        holder(secret)
    with pytest.raises(Unauthorized):  # the end of the last key does not open the server
        holder("")
    assert rows(browser.get(LIST, {"standing": "valid"}).content.decode()) == []
    assert len(rows(browser.get(LIST, {"standing": "expired"}).content.decode())) == 1
    response = browser.post(
        change(key), {"name": "reader", "read": "on", "prefixes": "", "expires_0": "", "expires_1": ""}
    )
    assert response.status_code == 302
    assert holder(secret).until_ms is None


def test_a_key_that_is_known_expires_to_the_moment(browser: Client) -> None:
    key, secret = create(browser)
    ApiKey.objects.filter(pk=key.pk).update(expires_ts=now_ms() + 60_000)
    ring = Keyring()
    ring.refresh()
    found = ring.authenticate(f"Bearer {secret}")
    assert ring.holds(found)
    assert found.valid(now_ms())
    assert not found.valid(now_ms() + 60_000)


def test_an_expiry_that_is_not_changed_stays_to_the_millisecond(browser: Client) -> None:
    key, _ = create(browser)
    ApiKey.objects.filter(pk=key.pk).update(expires_ts=1_000_000_123)  # in the past, too: it is not set anew
    fields = expiring("1970-01-12 13:46:40")
    browser.post(change(key), {"name": "other", "read": "on", "prefixes": "", **fields})
    kept = ApiKey.objects.get(pk=key.pk)
    assert (kept.name, kept.expires_ts) == ("other", 1_000_000_123)


def rotation(browser: Client, key: ApiKey, overlap_ms: int | str) -> dict[str, Any]:
    """Returns what the page sends."""
    page = browser.get(reverse("admin:topics_apikey_rotate", args=[key.pk])).content.decode()
    found = re.findall(r'<input type="hidden" name="(secret|previous_until_ts)"(?: value="([^"]*)")?', page)
    return {**dict(found), "overlap_ms": overlap_ms}


def rotate(browser: Client, key: ApiKey, overlap_ms: int, form: dict[str, Any] | None = None) -> str:
    """Returns the secret that is shown."""
    url = reverse("admin:topics_apikey_rotate", args=[key.pk])
    response = browser.post(url, form or rotation(browser, key, overlap_ms))
    page = response.content.decode()
    assert "no-store" in response["Cache-Control"]
    found = re.search(r'value="(tk_[\w-]{43})"', page)
    assert found, errors(page)
    return found[1]


def test_a_key_rotates_without_a_gap(browser: Client) -> None:
    key, old = create(browser, write="on", prefixes="a")
    assert f"/{key.pk}/rotate/" in browser.get(change(key)).content.decode()
    before = holder(old)
    new = rotate(browser, key, DAY_MS)
    assert holder(old) == holder(new) == before  # one key to every cap, session and log
    assert holder(new).until_ms is None
    ends = holder(old).until_ms
    assert ends is not None
    assert abs(ends - now_ms() - DAY_MS) < 60_000
    ApiKey.objects.filter(pk=key.pk).update(previous_until_ts=now_ms())
    assert holder(new) == before
    with pytest.raises(Unauthorized):
        holder(old)
    assert "already has an older secret" not in text(
        browser.get(reverse("admin:topics_apikey_rotate", args=[key.pk])).content.decode()
    )


def test_rotating_again_ends_the_secret_before_the_last(browser: Client) -> None:
    key, first = create(browser)
    second = rotate(browser, key, DAY_MS)
    assert "already has an older secret" in text(
        browser.get(reverse("admin:topics_apikey_rotate", args=[key.pk])).content.decode()
    )
    third = rotate(browser, key, DAY_MS)
    assert holder(second) == holder(third)
    with pytest.raises(Unauthorized):
        holder(first)


def test_a_second_click_gives_the_same_secret_and_an_old_page_none(browser: Client) -> None:
    key, first = create(browser)
    form, other = rotation(browser, key, DAY_MS), rotation(browser, key, DAY_MS)
    second = rotate(browser, key, DAY_MS, form)
    assert rotate(browser, key, DAY_MS, form) == second
    url = reverse("admin:topics_apikey_rotate", args=[key.pk])
    assert "was rotated while the page was open" in errors(browser.post(url, other).content.decode())
    assert holder(first) == holder(second)
    third = rotate(browser, key, 0)
    assert "was rotated while the page was open" in errors(browser.post(url, form).content.decode())
    for old in (first, second):
        with pytest.raises(Unauthorized):
            holder(old)
    assert holder(third).id == f"key:{key.pk}"
    assert LogEntry.objects.filter(change_message="Rotated.").count() == 2


def test_an_old_secret_may_end_at_once(browser: Client) -> None:
    key, old = create(browser)
    new = rotate(browser, key, 0)
    assert holder(new).id == f"key:{key.pk}"
    with pytest.raises(Unauthorized):
        holder(old)


def test_an_old_secret_does_not_outlive_the_key(browser: Client) -> None:
    key, old = create(browser)
    rotate(browser, key, DAY_MS)
    ApiKey.objects.filter(pk=key.pk).update(expires_ts=now_ms() + 1000)
    ends = holder(old).until_ms
    assert ends is not None
    assert ends <= now_ms() + 1000


def test_a_revoked_key_is_not_rotated_and_neither_secret_opens(browser: Client) -> None:
    key, old = create(browser)
    new = rotate(browser, key, DAY_MS)
    revoke(browser, key)
    for secret in (old, new):
        with pytest.raises(Unauthorized):
            holder(secret)
    assert browser.post(reverse("admin:topics_apikey_rotate", args=[key.pk]), {"overlap_ms": 0}).status_code == 403


@pytest.mark.parametrize("overlap_ms", ["", "1", "-1", "x", str(10 * 365 * DAY_MS)])
def test_another_overlap_is_refused(browser: Client, overlap_ms: str) -> None:
    key, old = create(browser)
    url = reverse("admin:topics_apikey_rotate", args=[key.pk])
    page = browser.post(url, rotation(browser, key, overlap_ms)).content.decode()
    assert errors(page)
    assert "This is the secret" not in page
    assert holder(old).until_ms is None


def test_no_key_is_deleted(browser: Client) -> None:
    key, _ = create(browser)
    url = reverse("admin:topics_apikey_delete", args=[key.pk])
    assert browser.post(url, {"post": "yes"}).status_code == 403
    browser.post(LIST, {"action": "delete_selected", "_selected_action": [key.pk], "post": "yes"})
    assert ApiKey.objects.filter(pk=key.pk).exists()


def test_a_viewer_neither_makes_nor_revokes(viewer: Client) -> None:
    assert viewer.post(ADD, {"name": "k", "read": "on", "prefixes": ""}).status_code == 403
    key = ApiKey.objects.create(name="k", secret_sha256=sha256("s"), created_ts=1)
    viewer.post(LIST, {"action": "revoke", "_selected_action": [key.pk]})
    assert ApiKey.objects.get(pk=key.pk).revoked_ts is None
    url = reverse("admin:topics_apikey_rotate", args=[key.pk])
    assert (viewer.get(url).status_code, viewer.post(url, {"overlap_ms": 0}).status_code) == (403, 403)
    assert "/rotate/" not in viewer.get(change(key)).content.decode()


# -- Nobody is locked out unasked -------------------------------------------------------------------------------------

FIRST = "This is the first key: after you save it, the server refuses requests without a key."


def make(browser: Client, **fields: str) -> str:
    """The page after a new key was asked for, without a confirmation."""
    return browser.post(ADD, {"name": "k", "prefixes": "", **fields}).content.decode()


def test_the_first_key_says_whom_it_locks_out_and_asks(browser: Client) -> None:
    assert FIRST in text(browser.get(ADD).content.decode())
    page = make(browser, read="on")
    assert "After that, no key may append, or create or configure topics" in errors(page)
    assert "After that, no key may create or configure topics" in errors(make(browser, read="on", write="on"))
    assert "After that, no key may append" in errors(make(browser, admin="on"))
    assert not ApiKey.objects.exists()
    assert "tk_" in make(browser, write="on", admin="on")
    assert "No other key may append" in text(browser.get(change(ApiKey.objects.get())).content.decode())


def test_the_next_key_does_not_ask(browser: Client) -> None:
    create(browser, write="on", admin="on")
    assert "Other access" not in text(browser.get(ADD).content.decode())
    assert "tk_" in make(browser, read="on")


def test_keys_of_the_environment_count(browser: Client, settings: Any) -> None:
    settings.TOPICS_API_KEYS = "secret:write+admin"
    assert "tk_" in make(browser, read="on")


def test_a_key_that_is_taken_its_scopes_asks(browser: Client) -> None:
    key, _ = create(browser, write="on", admin="on")
    fields = {"name": "reader", "read": "on", "prefixes": ""}
    assert "After that, no key may append" in errors(browser.post(change(key), fields).content.decode())
    assert ApiKey.objects.get().write
    assert browser.post(change(key), {**fields, "confirmed": "on"}).status_code == 302
    assert not ApiKey.objects.get().write


def test_revoking_asks(browser: Client) -> None:
    key, secret = create(browser, write="on", admin="on")
    other, _ = create(browser, name="other", write="on")
    chosen = {"action": "revoke", "_selected_action": [key.pk]}
    page = text(browser.post(LIST, chosen).content.decode())
    assert "This is permanent" in page
    assert "After that, no key may create or configure topics" in page
    assert "After that, no key may append" not in page
    assert holder(secret).name == "reader"
    revoke(browser, key)
    assert ApiKey.objects.get(pk=other.pk).revoked_ts is None
    with pytest.raises(Unauthorized):
        holder(secret)
    assert browser.post(LIST, chosen).status_code == 302  # it is revoked already: nothing is asked


def test_a_time_in_the_address_of_the_form_sets_none(browser: Client, db: None) -> None:
    answer = browser.get(ADD, {"name": "reader", "expires": "2030-01-31"})
    assert answer.status_code == 200
    assert 'value="reader"' in answer.content.decode()
    assert "2030-01-31" not in answer.content.decode().partition("<form")[2]
