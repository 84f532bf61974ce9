"""Routers in the admin. Each page needs one query, and every change uses the same functions as the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import BigIntegerField, F, Func, Q, QuerySet
from django.db.models.functions import Greatest
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from base.clock import now_ms
from base.errors import Incompatible, RouterNotFound
from base.units import amount, duration, moment
from routers.lag import STALLED_MS, lag_of
from routers.models import Router
from routers.routers import RouterConfig, delete_router, put_router, set_paused
from store.script import run
from topics.admin.pages import Deletion, DomainAdmin, DomainForm, as_struct, choice_column
from topics.models import Topic

LAG = F("source__head__head_seq") - F("cursor__seq")
NEXT_TS = Func(
    "source_id",
    Greatest("cursor__seq", "source__head__floor_seq"),
    function="topic_next_ts",
    output_field=BigIntegerField(),
)
FLAGS = ("preserve_node", "preserve_tag", "allow_cycle", "allow_fan_in")
OPTIONS = (*FLAGS, "guarantee", "paused")
WIDE = forms.TextInput(attrs={"size": 60})


class RouterForm(DomainForm):
    source_name = forms.CharField(label="Source", widget=WIDE, help_text="A missing source is created.")
    dest_name = forms.CharField(label="Dest", widget=WIDE)
    create_dest = forms.BooleanField(required=False, initial=True, help_text="Create a missing dest.")
    start = forms.ChoiceField(
        label="Start",
        choices=[
            ("head", "at the source's head"),
            ("earliest", "at its earliest record"),
            ("seq", "after the seq below"),
        ],
    )
    start_seq = forms.IntegerField(required=False, label="Seq")
    filter_op = forms.ChoiceField(
        required=False,
        label="Forward",
        choices=[("", "every record"), ("Eq", "the tag below"), ("Glob", "tags with a prefix, and * at its end")],
    )
    filter_tag = forms.CharField(required=False, label="Tag", strip=False)
    paused = forms.BooleanField(required=False)

    class Meta:
        model = Router
        fields = ("name", *FLAGS, "guarantee")
        widgets = {"name": WIDE}
        help_texts = {
            "name": "The characters of a topic's name, and >: source->dest.",
            "preserve_node": "Copies keep $node, which prevents loops.",
            "preserve_tag": "Copies keep $tag.",
            "allow_cycle": "The router may close a cycle, for mirrors.",
            "allow_fan_in": "The dest may have other sources. Each of their routers must set this, too.",
            "guarantee": "exactly_once stamps each copy with its origin, in meta._topics_router.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        router = self.instance
        if router._state.adding:
            return
        glob = "*" if router.filter_op == "Glob" else ""
        now = {
            "filter_op": router.filter_op or "",
            "filter_tag": (router.filter_tag or "") + glob,
            "paused": router.state == Router.State.PAUSED,
        }
        for name, value in now.items():
            if name in self.fields:
                self.initial[name] = value

    def clean(self) -> dict[str, Any]:
        """Refuses a tag or seq that would be left out: without its tag, the router would forward every record."""
        cleaned = super().clean()
        if cleaned.get("filter_tag") and not cleaned.get("filter_op") and "filter_tag" in self.changed_data:
            self.add_error("filter_op", "Choose how the tag below must match.")
        if cleaned.get("start_seq") is not None and cleaned.get("start") != "seq":
            self.add_error("start", "Choose to start after the seq below, or leave the seq empty.")
        return cleaned

    def options(self) -> dict[str, Any]:
        """Returns the options of the form in the format of a PUT's body."""
        given = self.cleaned_data
        filtered = ["tag", given["filter_op"], given["filter_tag"]] if given["filter_op"] else None
        return {**{name: given[name] for name in OPTIONS}, "filter": filtered}

    def endpoints(self) -> dict[str, Any]:
        """Returns the fields that are only set at creation: source, dest and start."""
        given = self.cleaned_data
        start = given["start_seq"] if given["start"] == "seq" else given["start"]
        names = {"source": given["source_name"], "dest": given["dest_name"]}
        return {**names, "create_dest": given["create_dest"], "from": start}


class StateNow(admin.SimpleListFilter):
    """Filters by the state shown in the list. "stalled": the router runs and lags, but its cursor does not advance."""

    title, parameter_name = "state", "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(each, each) for each in (*Router.State.values, "stalled")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Router]) -> QuerySet[Router]:
        before = now_ms() - STALLED_MS
        stalled = Q(state=Router.State.RUNNING, cursor__updated_ts__lt=before, lag__gt=0, next_ts__lt=before)
        match self.value():
            case "stalled":
                return queryset.filter(stalled)
            case Router.State.RUNNING:
                # The first waiting record is needed only where a router lags. NULL means none: the filter keeps such routers.
                return queryset.filter(state=Router.State.RUNNING).exclude(Q(next_ts__isnull=False) & stalled)
            case value if value in Router.State.values:
                return queryset.filter(state=value)
        return queryset


class RouterAdmin(DomainAdmin):
    """The lag is the source's head minus the cursor, computed by the query of the page."""

    nothing_yet = mark_safe(
        'No routers yet. <a href="add/">Add a router</a>: it forwards the records of one topic to another.'
    )
    form = RouterForm
    list_display = (
        "name",
        "from_topic",
        "to_topic",
        "state_now",
        "lag",
        "behind",
        "forwarded",
        choice_column("guarantee"),
        "last_error",
    )
    list_filter = (StateNow, "guarantee")
    ordering = ("name",)
    search_fields = ("name__contains", "source__name__contains", "dest__name__contains")
    search_help_text = "Search for a part of a router's or a topic's name."
    actions = ("pause", "resume")
    now = ("from_topic", "to_topic", "state_now", "lag", "behind", "forwarded", "last_error", "errors", "created")
    options = ("filter_op", "filter_tag", *FLAGS, "guarantee", "paused")

    # -- Display ------------------------------------------------------------------------------------------------------

    @admin.display(ordering="source__name", description="source")
    def from_topic(self, router: Router) -> str:
        return link(router.source)

    @admin.display(ordering="dest__name", description="dest")
    def to_topic(self, router: Router) -> str:
        return link(router.dest)

    @admin.display(ordering="cursor__forwarded_total")
    def forwarded(self, router: Router) -> str:
        return amount(router.cursor.forwarded_total)

    @admin.display(ordering="lag", description="lag")
    def lag(self, router: Router) -> str:
        return amount(router.lag)

    @admin.display(description="behind", empty_value="nothing")
    def behind(self, router: Router) -> str | None:
        return None if router.next_ts is None else duration(now_ms() - router.next_ts)

    @admin.display(ordering="state", description="state")
    def state_now(self, router: Router) -> str:
        now = now_ms()
        still = router.cursor.updated_ts < now - STALLED_MS
        oldest = None if router.next_ts is None else now - router.next_ts
        return lag_of(router.lag, oldest, still).shown(router.state)

    @admin.display(description="errors")
    def errors(self, router: Router) -> str:
        return amount(router.errors_total)

    @admin.display
    def created(self, router: Router) -> str | None:
        return moment(router.created_ts)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Router]:
        related = super().get_queryset(request).select_related("source__head", "dest", "cursor")
        return related.annotate(lag=LAG, next_ts=NEXT_TS)

    def get_fieldsets(self, request: HttpRequest, obj: Router | None = None) -> Any:
        if obj is None:
            begin = ("name", "source_name", "dest_name", "create_dest", "start", "start_seq")
            return [(None, {"fields": begin}), ("Options", {"fields": self.options})]
        if not self.has_change_permission(request, obj):
            return [(None, {"fields": ("name", *self.now, *FLAGS, "guarantee")})]
        return [("Now", {"fields": ("name", *self.now)}), ("Options", {"fields": self.options})]

    def get_readonly_fields(self, request: HttpRequest, obj: Router | None = None) -> Sequence[str]:
        return () if obj is None else ("name", *self.now)

    # -- Actions ------------------------------------------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: Router, form: RouterForm, change: bool) -> None:
        """Creates the router, or changes the fields that differ. Raises TopicsError."""
        ends = {"source": obj.source.name, "dest": obj.dest.name} if change else form.endpoints()
        config = as_struct({**ends, **form.options()}, RouterConfig)
        router, created = run(put_router(obj.name, config, now_ms()))
        if change and created:
            raise RouterNotFound(f"router {obj.name!r} was deleted meanwhile", router=obj.name)
        if not change and not created:
            raise Incompatible(f"router {obj.name!r} already exists: choose another name", router=obj.name)
        obj.pk = router.id

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Deletion:
        """Lists the effects of a delete. The cursor is deleted with the router. Forwarded records stay in the dest."""
        lost = [
            f"Router {each.name}: {amount(each.lag)} records of {each.source.name} are not yet in {each.dest.name}"
            for each in objs
        ]
        return lost, {"routers": len(lost)}, set(), []

    def delete_model(self, request: HttpRequest, obj: Router) -> None:
        run(delete_router(obj.name))

    @admin.action(description="Pause selected routers", permissions=["change"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Router]) -> HttpResponse | None:
        return self.set_paused(request, queryset, True)

    @admin.action(description="Resume selected routers", permissions=["change"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Router]) -> HttpResponse | None:
        return self.set_paused(request, queryset, False)

    def set_paused(self, request: HttpRequest, queryset: QuerySet[Router], paused: bool) -> HttpResponse | None:
        """Pauses or resumes routers. First shows a page with the effects, which the operator has to confirm."""
        if request.POST.get("confirmed") != "yes":
            return self.ask(request, queryset, paused)
        done = "Paused." if paused else "Resumed."
        for router in queryset:
            run(set_paused(router.name, paused))
            self.log_change(request, router, done)
        messages.success(request, f"{len(queryset)} routers: {done.lower()}")
        return None

    def ask(self, request: HttpRequest, queryset: QuerySet[Router], paused: bool) -> HttpResponse:
        action = "pause" if paused else "resume"
        routers = [
            {"pk": each.pk, "name": each.name, "source": each.source, "dest": each.dest, "waiting": amount(each.lag)}
            for each in queryset
        ]
        title = f"{action.capitalize()} {amount(len(routers))} router{'s' if len(routers) != 1 else ''}"
        return self.page(request, "routers/pause", title, action=action, paused=paused, routers=routers)


def link(topic: Topic) -> str:
    url = reverse("admin:topics_topic_change", args=[topic.pk])
    return format_html('<a href="{}">{}</a>', url, topic.name)
