"""A router's pages: a description in words, its lag, and forms to pause and move it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string

from base.clock import now_ms
from base.errors import InvalidRequest, RouterNotFound, TopicsError
from base.units import amount, counted, duration
from console.history import charts, rollups, series
from console.live.live import part
from console.site import MOST_WHOLE, Console, whole
from console.templatetags.console import router_url
from routers.lag import Lagging, lagging
from routers.models import Router
from routers.reposition import RouterPosition, place
from routers.reposition import move as move_router
from routers.routers import set_paused
from routers.stored import StoredRouter, absent, find
from store.script import run


def found(name: str) -> StoredRouter:
    """Returns the router. Raises Http404."""
    try:
        return run(find(name))
    except (RouterNotFound, InvalidRequest) as error:  # also for a name that no router can have
        raise Http404(error.message) from error


def in_words(router: StoredRouter, lag: Lagging, state: str) -> str:
    """Returns a sentence with the router's configuration and its lag."""
    said = [f"{router.guarantee} from {router.source} to {router.dest}"]
    if (match := router.filter()) is not None:
        said.append(f"only tag {match[2]}" if match[1] == "Eq" else f"only tags that match {match[2]}")
    if not router.preserve_node:
        said.append("without nodes")
    if not router.preserve_tag:
        said.append("without tags")
    if router.allow_cycle:
        said.append("on a cycle, so records that the dest already holds are left out")
    if lag.lag:
        waits = "" if lag.oldest_unread_ms is None else f" for {duration(lag.oldest_unread_ms)}"
        said.append(f"{counted(lag.lag, 'record')} behind{waits}")
    else:
        said.append("caught up")
    return ", ".join(said) + ("" if state == "running" else f"; {state}") + "."


def state(router: StoredRouter, chosen: str, now: int) -> dict[str, Any]:
    """Returns the part of the context that changes while the page is open. Raises RouterNotFound if the router was deleted
    meanwhile."""
    lag = run(lagging([router.id], now)).get(router.id, Lagging(0, None, False))
    shown = series.window(chosen, now)
    own = series.read("router", [router.id], shown)[router.id]
    row = Router.objects.values("errors_total", "retry_ts", "created_ts", "ordered").filter(pk=router.id).first()
    if row is None:
        raise absent(router.name)
    rates, ago = own.rates("head_seq"), series.beside("router", router.id, shown)
    stands = lag.shown(router.state)
    return {
        "router": router,
        "row": row,
        "lag": lag,
        "state": stands,
        "words": in_words(router, lag, stands),
        "place": run(place(router)),
        "rate": charts.last(rates),
        "rate_chart": charts.chart(
            "Forwarded per second",
            shown.times,
            [
                charts.ChartLine("forwarded", "three", rates),
                *ago(lambda past: past.rates("head_seq")),
            ],
            charts.per_second,
            series.changes("router", router.name, shown),
        ),
        "lag_chart": charts.chart(
            "Lag",
            shown.times,
            [
                charts.ChartLine("records behind", "two", own.values("lag")),
                *ago(lambda past: past.values("lag")),
            ],
        ),
        "delay_chart": rollups.delays(router.name, shown),
        "age_chart": charts.chart(
            "Age of the oldest waiting record",
            shown.times,
            [charts.ChartLine("age", "one", own.values("oldest_ms"))],
            lambda ms: duration(int(ms)),
        ),
    }


def page(site: Console, request: HttpRequest, name: str) -> HttpResponse:
    chosen = series.chosen(request.GET.get("range", ""))
    context = state(found(name), chosen, now_ms())
    return site.page(request, "console/router.html", title=name, name=name, **series.choices(chosen), **context)


@part("router", "routers.view_router")
def live(subject: str) -> str:
    """Returns the part of the page as HTML. Raises RouterNotFound."""
    chosen, _, name = subject.partition("/")
    context = state(run(find(name)), series.chosen(chosen), now_ms())
    return render_to_string("console/router_part.html", context)


def pause(site: Console, request: HttpRequest, name: str) -> HttpResponse:
    """Pauses or resumes the router, after a page that explains the effect."""
    router = found(name)
    paused = router.state != Router.State.PAUSED
    if request.method == "POST":
        wanted = request.POST.get("paused") == "1"
        try:
            run(set_paused(name, wanted))
        except TopicsError as error:
            messages.error(request, error.message)
        else:
            messages.success(request, f"{name} is {'paused' if wanted else 'running again'}.")
        return HttpResponseRedirect(router_url(name))
    lag = run(lagging([router.id], now_ms())).get(router.id, Lagging(0, None, False))
    return site.page(request, "console/pause.html", title=name, router=router, paused=paused, lag=lag)


class MoveForm(forms.Form):
    """The seq to continue after. `expected` is the router's position when the page was made."""

    to = forms.ChoiceField(
        label="Continue",
        choices=[
            ("skip", "after the waiting record, which is skipped"),
            ("seq", "after the seq below"),
            ("earliest", "at the earliest record of the source"),
            ("head", "at the source's head: skip all waiting records"),
        ],
    )
    seq = forms.IntegerField(
        required=False, min_value=0, max_value=MOST_WHOLE, label="Seq", help_text="Forwarding continues after this seq."
    )
    expected = forms.IntegerField(widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = self.cleaned_data
        if given.get("to") == "seq" and given.get("seq") is None and "seq" not in self.errors:
            self.add_error("seq", "Enter the seq after which to continue.")
        return given

    def target(self, at: RouterPosition) -> int:
        """Returns the seq after which the router will continue."""
        match self.cleaned_data["to"]:
            case "skip":
                return at.head_seq if at.next_seq is None else at.next_seq
            case "earliest":
                return at.floor_seq
            case "head":
                return at.head_seq
        return int(self.cleaned_data["seq"])


def consequences(router: StoredRouter, at: RouterPosition, target: int) -> list[str]:
    """Returns the effects of a move in sentences, for the confirmation."""
    if target == at.seq:
        return ["The cursor stays. The router retries at once."]
    if target > at.seq:
        return [
            f"This router will not forward up to {counted(target - at.seq, 'record')} of {router.source}, "
            f"seqs {amount(at.seq + 1)} to {amount(target)}, to {router.dest}.",
            f"Readers of {router.dest} get no tombstone, because the seqs of {router.dest} have no gap.",
            f"{router.source} keeps the records.",
        ]
    again = f"Up to {counted(at.seq - target, 'record')} of {router.source} from seq {amount(target + 1)} are forwarded again."
    if router.guarantee == Router.Guarantee.EXACTLY_ONCE:
        return [
            again,
            f"The router is exactly_once: records that {router.dest} still holds are left out, and all others get new seqs.",
        ]
    return [
        again,
        f"The router is at_least_once: {router.dest} and its readers get these records a second time, with new seqs.",
    ]


def move(site: Console, request: HttpRequest, name: str) -> HttpResponse:
    """Shows a form, then the effects of the move, and moves the router after the confirmation."""
    router = found(name)
    at = run(place(router))
    form = MoveForm(request.POST or None, initial={"expected": at.seq, "to": "skip"})
    meant = None
    if request.method == "POST" and form.is_valid():
        target = form.target(at) if "target" not in request.POST else whole(request.POST["target"])
        try:
            if target is not None and "confirmed" in request.POST:
                run(move_router(name, target, form.cleaned_data["expected"], now_ms()))
                messages.success(request, f"{name} continues after seq {amount(target)}.")
                return HttpResponseRedirect(router_url(name))
        except TopicsError as error:
            form.add_error(None, error.message)
        else:
            meant = None if target is None else (target, consequences(router, at, target))
    return site.page(
        request,
        "console/move.html",
        title=name,
        router=router,
        at=at,
        form=form,
        meant=meant,
        running=at.state == "running",
    )
