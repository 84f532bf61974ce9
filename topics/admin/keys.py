"""API keys in the admin: create (the page shows the secret once), set scopes and prefixes, rotate and revoke.

Keys cannot be deleted, only revoked. A revoked key keeps the server closed. Without any key, the server would accept every
request.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminSplitDateTime
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.safestring import mark_safe

from base.clock import now_ms
from base.names import ROUTER_NAME
from base.units import moment
from store.script import run
from topics import audit
from topics.admin import lockout, rotate
from topics.admin.pages import DomainAdmin, DomainForm
from topics.admin.secret import show_secret
from topics.models import ApiKey
from wire.access.keys import SCOPES, keyring, new_secret, sha256

COLUMN = {scope: "delete_scope" if scope == "delete" else scope for scope in SCOPES}


class ExpiryWidget(AdminSplitDateTime):
    """Django's two fields for a time. Each has a label for readers who cannot see the word before it."""

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__(attrs)
        for widget, word in zip(self.widgets, ("Date", "Time"), strict=True):
            widget.attrs["aria-label"] = f"{word} of expiry"

    def decompress(self, value: datetime | str | None) -> list[Any]:
        """Returns the date and the time. Django gives the text of `?expires=` in the address of the form, which sets no time."""
        return super().decompress(value if isinstance(value, datetime) else None)


class ApiKeyForm(DomainForm):
    expires = forms.SplitDateTimeField(
        required=False,
        widget=ExpiryWidget,
        label="Expires (UTC)",
        help_text="At this time the key becomes invalid, and its streams end. Empty: the key does not expire.",
    )

    confirmed = forms.BooleanField(required=False, label="Save anyway")

    class Meta:
        model = ApiKey
        fields = ("name", "read", "write", "commit", "delete_scope", "webhooks", "admin", "prefixes")
        help_texts = {
            "name": "The client of the key.",
            "read": "Read topics, records, cursors and routers: GETs, diff, watch.",
            "write": "Append. An append can create its topic.",
            "commit": "Set named cursors: a consumer stores its position.",
            "delete_scope": "Delete topics, records, cursors and routers.",
            "webhooks": "Manage webhooks. With read also create and change them.",
            "admin": "Create and configure topics, cursors and routers (PUTs). Without prefixes also read the server's metrics.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "expires" in self.fields and self.instance.expires_ts is not None:
            self.fields["expires"].initial = datetime.fromtimestamp(self.instance.expires_ts / 1000, UTC)

    def clean_expires(self) -> datetime | None:
        expires: datetime | None = self.cleaned_data["expires"]
        if expires is not None and "expires" in self.changed_data and expires <= datetime.now(UTC):
            raise forms.ValidationError(
                "The time is in the past: choose a later time. To end the key now, revoke the key."
            )
        return expires

    def clean_prefixes(self) -> str:
        prefixes: list[str] = self.cleaned_data["prefixes"].split()
        for prefix in prefixes:
            if not ROUTER_NAME.fullmatch(prefix):
                raise forms.ValidationError(f"Invalid prefix {prefix[:80]!r}: expected the start of a name.")
        return "\n".join(prefixes)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if not any(cleaned.get(column) for column in COLUMN.values()):
            raise forms.ValidationError("The key has no scope: choose at least one scope.")
        if not self.errors and not cleaned.get("confirmed") and (lost := self.lost()):
            told = f"After that, no key may {', or '.join(lost)}. Give this key the scope, or confirm."
            self.add_error("confirmed", told)
        return cleaned

    def lost(self) -> list[str]:
        """Returns the actions that no key could do after a save."""
        before = lockout.kept()
        wanted = ApiKey(write=self.cleaned_data["write"], admin=self.cleaned_data["admin"])
        expires: datetime | None = self.cleaned_data.get("expires")
        wanted.expires_ts = None if expires is None else round(expires.timestamp() * 1000)
        return lockout.lost(before, [*(key for key in before if key.pk != self.instance.pk), wanted])


class Standing(admin.SimpleListFilter):
    title = "standing"
    parameter_name = "standing"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("valid", "valid"), ("expired", "expired"), ("revoked", "revoked")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
        revoked, over = Q(revoked_ts__isnull=False), Q(expires_ts__lte=now_ms())
        match self.value():
            case "valid":
                return queryset.filter(~revoked, Q(expires_ts=None) | Q(expires_ts__gt=now_ms()))
            case "expired":
                return queryset.filter(~revoked, over)
            case "revoked":
                return queryset.filter(revoked)
        return queryset


@admin.register(ApiKey)
class ApiKeyAdmin(DomainAdmin):
    nothing_yet = mark_safe(
        "No keys here. Without keys here and in TOPICS_API_KEYS, every client that reaches the port may do everything."
        ' <a href="add/">Add a key</a>'
    )
    form = ApiKeyForm
    list_display = ("name", "scopes", "limited_to", "created", "expires", "last_used", "revoked")
    list_filter = (Standing,)
    ordering = ("name", "id")
    search_fields = ("name__istartswith",)
    actions = ("revoke",)
    fieldsets = (
        (None, {"fields": ("name",)}),
        ("It may", {"fields": ("read", "write", "commit", "delete_scope", "webhooks", "admin")}),
        ("Names", {"fields": ("prefixes",)}),
        ("Until when", {"fields": ("expires",)}),
    )
    times = ("created", "old_secret_until", "last_used", "revoked")

    # -- Columns and fields: never the secret or its hash ----------------------------------------------------------------

    @admin.display
    def scopes(self, key: ApiKey) -> str:
        return " ".join(scope for scope in SCOPES if getattr(key, COLUMN[scope]))

    @admin.display(description="prefixes")
    def limited_to(self, key: ApiKey) -> str:
        return ", ".join(key.prefixes.split()) or "every name"

    @admin.display(ordering="created_ts")
    def created(self, key: ApiKey) -> str | None:
        return moment(key.created_ts)

    @admin.display(ordering="expires_ts", description="expires", empty_value="never")
    def expires(self, key: ApiKey) -> str | None:
        return moment(key.expires_ts)

    @admin.display(description="old secret valid until", empty_value="not rotated")
    def old_secret_until(self, key: ApiKey) -> str | None:
        return moment(key.previous_until_ts)

    @admin.display(ordering="last_used_ts", description="last used", empty_value="never")
    def last_used(self, key: ApiKey) -> str | None:
        return moment(key.last_used_ts)

    @admin.display(ordering="revoked_ts", empty_value="no")
    def revoked(self, key: ApiKey) -> str | None:
        return moment(key.revoked_ts)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return super().get_queryset(request).defer("secret_sha256", "previous_sha256")

    def get_fieldsets(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        fieldsets = [*super().get_fieldsets(request, obj)]
        if warning := warning_of(obj):
            fieldsets.insert(
                2, ("Other access", {"fields": ("confirmed",), "description": warning})
            )  # below the scopes
        return fieldsets if obj is None else (*fieldsets, ("Until now", {"fields": self.times}))

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Sequence[str]:
        return () if obj is None else self.times

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(lambda request, id: rotate.rotate(self, request, id))
        return [path("<int:id>/rotate/", view, name="topics_apikey_rotate"), *super().get_urls()]

    # -- Actions -------------------------------------------------------------------------------------------------------

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        """A revoked key cannot be changed."""
        return super().has_change_permission(request, obj) and (obj is None or obj.revoked_ts is None)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: ApiKeyForm, change: bool) -> None:
        expires: datetime | None = form.cleaned_data["expires"]
        obj.expires_ts = None if expires is None else round(expires.timestamp() * 1000)
        if change:
            before = described(ApiKey.objects.get(pk=obj.pk))
            # Save only the changed fields. Otherwise a save could undo a revocation from another page.
            columns = ("expires_ts" if name == "expires" else name for name in form.changed_data if name != "confirmed")
            obj.save(update_fields=list(columns))
            run(audit.note_difference("key", obj.name, before, described(obj)))
        else:
            secret = new_secret()
            obj.secret_sha256, obj.created_ts = sha256(secret), now_ms()
            request.secret = secret  # for response_add, which shows the secret; nothing else stores it
            obj.save()
            run(audit.note("create", "key", obj.name, after=described(obj)))
        transaction.on_commit(keyring.forget)

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None) -> HttpResponse:
        return show_secret(self, request, obj, request.secret, "API key created")

    @admin.action(description="Revoke selected keys", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        """Asks for confirmation first, because a revocation is permanent."""
        if "confirmed" not in request.POST:
            return self.ask_to_revoke(request, list(queryset.filter(revoked_ts=None)))
        with transaction.atomic():
            keys = list(queryset.filter(revoked_ts=None))
            ApiKey.objects.filter(pk__in=[key.pk for key in keys], revoked_ts=None).update(revoked_ts=now_ms())
            run(audit.note_all("revoke", "key", [audit.Change(key.name, before=described(key)) for key in keys]))
            transaction.on_commit(keyring.forget)
        for key in keys:
            self.log_change(request, key, "Revoked.")
        messages.success(request, f"{len(keys)} keys revoked. The server refuses them within a second.")
        return None

    def ask_to_revoke(self, request: HttpRequest, keys: list[ApiKey]) -> HttpResponse | None:
        if not keys:
            messages.info(request, "These keys are already revoked.")
            return None
        before, ids = lockout.kept(), {key.pk for key in keys}
        # A revoked key still counts as a key: without any valid key, the server stays closed.
        after = [ApiKey(revoked_ts=now_ms()) if key.pk in ids else key for key in before]
        shown = {"action": "revoke", "keys": keys, "lost": lockout.lost(before, after)}
        return self.page(request, "topics/apikey/revoke", "Revoke API keys", **shown)


def warning_of(key: ApiKey | None) -> str:
    """Returns a warning if saving this key (None: a new key) could leave no key to write or to configure, else an empty
    string."""
    before = lockout.kept()
    without = [each for each in before if key is None or each.pk != key.pk]
    lost = lockout.lost(before, [*without, ApiKey(write=False, admin=False)])
    if not lost:
        return ""
    first = "" if before else "This is the first key: after you save it, the server refuses requests without a key. "
    return f"{first}No other key may {', or '.join(lost)}. Without this scope, no key may."


def described(key: ApiKey) -> dict[str, Any]:
    """Returns a key as the audit log shows it, without its secrets and hashes."""
    scopes = [scope for scope in SCOPES if getattr(key, COLUMN[scope])]
    shown = {"id": key.pk, "name": key.name, "scopes": scopes, "prefixes": key.prefixes.split()}
    return {**shown, "expires": moment(key.expires_ts)}
