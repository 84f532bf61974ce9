"""API keys in the admin: the secret once, then never; scopes, prefixes, revocation."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse

from tests.admin.pages import errors, rows
from topics.errors import Forbidden, Unauthorized
from topics.keys import Key, Keyring, sha256
from topics.models import ApiKey

LIST = reverse("admin:topics_apikey_changelist")
ADD = reverse("admin:topics_apikey_add")


def change(key: ApiKey) -> str:
    return reverse("admin:topics_apikey_change", args=[key.pk])


def create(browser: Client, **fields: str) -> tuple[ApiKey, str]:
    response = browser.post(ADD, {"name": "reader", "read": "on", "prefixes": "", **fields})
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
    assert [row[4:] for row in rows(page)] == [["never", "no"]] * 2


def test_last_use_is_shown(browser: Client) -> None:
    key, secret = create(browser)
    ring = Keyring()
    ring.refresh()
    ring.authenticate(f"Bearer {secret}")
    ring.forget()
    ring.refresh()
    assert ApiKey.objects.get(pk=key.pk).last_used_ts is not None
    assert rows(browser.get(LIST).content.decode())[0][4] != "never"


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
        ({"read": ""}, "A key without a scope may do nothing"),
        ({"prefixes": "ok\nno/good"}, "No name begins with"),
        ({"prefixes": "_x"}, "No name begins with"),
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
    assert browser.post(LIST, chosen).status_code == 302


def test_a_revoked_key_opens_nothing(browser: Client) -> None:
    key, secret = create(browser)
    holder(secret)
    revoke(browser, key)
    with pytest.raises(Unauthorized):
        holder(secret)
    with pytest.raises(Unauthorized):  # the last key revoked does not open the server
        holder("")
    assert rows(browser.get(LIST).content.decode())[0][5] != "no"
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
