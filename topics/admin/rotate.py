"""Rotates a key in the admin: the page shows a new secret once, and the old secret stays valid for a chosen time."""

from __future__ import annotations

from django import forms
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from base.clock import now_ms
from base.errors import Incompatible, TopicsError
from base.units import duration, moment
from store.script import run
from topics import audit
from topics.admin.pages import DomainAdmin
from topics.admin.secret import show_secret
from topics.models import ApiKey
from wire.access.keys import keyring, new_secret, sha256

HOUR_MS = 3_600_000
OVERLAPS = [  # how long both secrets are valid
    (HOUR_MS, "for another hour"),
    (24 * HOUR_MS, "for another day"),
    (7 * 24 * HOUR_MS, "for another 7 days"),
    (30 * 24 * HOUR_MS, "for another 30 days"),
    (0, "no longer, the secret ends now"),
]


class RotateForm(forms.Form):
    """The page has the new secret, so that a second click gives the same. Another one would drop the secret that clients hold.

    `previous_until_ts` is that of the key when the page was made.
    """

    overlap_ms = forms.TypedChoiceField(
        choices=OVERLAPS, coerce=int, initial=24 * HOUR_MS, label="The old secret is valid"
    )
    secret = forms.RegexField(r"^tk_[\w-]{43}\Z", widget=forms.HiddenInput)
    previous_until_ts = forms.IntegerField(required=False, widget=forms.HiddenInput)


def rotate(admin: DomainAdmin, request: HttpRequest, id: int) -> HttpResponse:
    """Shows a form. After the form is sent, shows the new secret once."""
    key = admin.found(request, id, admin.has_change_permission)
    form = RotateForm(
        request.POST or None, initial={"secret": new_secret(), "previous_until_ts": key.previous_until_ts}
    )
    if request.method == "POST" and form.is_valid():
        try:
            key, is_rotated = rotate_now(key.pk, **form.cleaned_data, now=now_ms())
        except TopicsError as error:
            form.add_error(None, error.message)
        else:
            if is_rotated:
                admin.log_change(request, key, "Rotated.")
            return show_secret(admin, request, key, form.cleaned_data["secret"], "API key rotated")
    until = moment(key.previous_until_ts) if (key.previous_until_ts or 0) > now_ms() else None
    shown = {"subtitle": str(key), "original": key, "form": form, "previous_until": until}
    return admin.page(request, "topics/apikey/rotate", "Rotate API key", **shown)


def rotate_now(id: int, secret: str, previous_until_ts: int | None, overlap_ms: int, now: int) -> tuple[ApiKey, bool]:
    """Gives the key this secret and keeps its old secret for `overlap_ms`. Returns the key, and False if it had the secret.

    Raises Incompatible if the key was rotated since it had this `previous_until_ts`.
    """
    with transaction.atomic():
        key = ApiKey.objects.select_for_update().get(pk=id)
        if bytes(key.secret_sha256) == sha256(secret):
            return key, False
        if key.previous_until_ts != previous_until_ts:
            raise Incompatible(f"{key.name} was rotated while the page was open: open the page again")
        key.previous_sha256, key.previous_until_ts = key.secret_sha256, now + overlap_ms
        key.secret_sha256 = sha256(secret)
        key.save(update_fields=["previous_sha256", "previous_until_ts", "secret_sha256"])
        asked = {"id": key.pk, "old_secret_valid_for": duration(overlap_ms)}
        run(audit.note("rotate", "key", key.name, after=asked))
        transaction.on_commit(keyring.forget)
    return key, True
