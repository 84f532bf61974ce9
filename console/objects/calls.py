"""The calls of a webhook or a subscriber of the bus: the rows that both pages show, and the form that chooses them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django import forms
from django.utils.safestring import SafeString

from console.records.browse import TimeField

MOST_ROWS = 50


class ShownCall(NamedTuple):
    """A row. `sent`: the sent records or events, as HTML. `again_url`: the page that sends them again, or "".
    `ms`: None for a row without a call, such as a loss."""

    id: int
    ts: int
    outcome: str
    sent: SafeString
    attempt: int
    status: int | None
    ms: int | None
    next_ts: int | None
    error: str | None
    answer: str | None
    again_url: str


class CallsForm(forms.Form):
    """Which calls a page shows. A page has more fields, if its calls have more to choose by."""

    outcome = forms.ChoiceField(required=False, label="Outcome")
    since = TimeField()

    def __init__(self, data: object, outcomes: Iterable[str]) -> None:
        super().__init__(data)
        self.fields["outcome"].choices = [("", "all calls"), *((each, each) for each in outcomes)]
