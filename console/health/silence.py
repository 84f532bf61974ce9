"""The page that silences a signal, or ends its silence."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from base.clock import now_ms
from console.health import signals
from console.site import MOST_WHOLE, Console

HOUR_MS = 3_600_000


class SilenceForm(forms.Form):
    """For how long, and why."""

    hours = forms.TypedChoiceField(
        label="For",
        coerce=int,
        choices=[(1, "an hour"), (4, "4 hours"), (24, "a day"), (168, "a week"), (720, "30 days")],
    )
    reason = forms.CharField(label="Reason", max_length=200, help_text="The overview shows it.")


def page(site: Console, request: HttpRequest, id: int) -> HttpResponse:
    signal = signals.signal(id) if id <= MOST_WHOLE else None
    if signal is None:
        raise Http404("this problem was closed long ago")
    form = SilenceForm(request.POST if request.method == "POST" and "action" not in request.POST else None)
    if request.POST.get("action") == "end":
        signals.silence(signal, 0, "", "")
        messages.success(request, "The silence ended.")
        return HttpResponseRedirect(reverse("admin:index"))
    if form.is_valid():
        until_ts = now_ms() + form.cleaned_data["hours"] * HOUR_MS
        signals.silence(signal, until_ts, form.cleaned_data["reason"], request.user.get_username())
        messages.success(request, f"Silenced: {signal.text}")
        return HttpResponseRedirect(reverse("admin:index"))
    return site.page(request, "console/silence.html", title="Silence a problem", signal=signal, form=form)
