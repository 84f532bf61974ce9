"""What the pages of this admin share: one query a list, and the domain's refusals as errors of the form."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from django import forms
from django.contrib import admin, messages
from django.contrib.admin.options import ShowFacets
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.text import capfirst

from base.errors import InvalidRequest, TopicsError
from wire import hints

PATH = re.compile(r" - at `\$\.(\w+)(?:\[\.\.\.\])?`$")  # where msgspec found what it refuses
MOST_PAGES = 10**12  # whatever an address asks for: PostgreSQL counts rows up to 2**63
S = TypeVar("S", bound=msgspec.Struct)
# What a confirmation page shows: lines, a number for each kind, permissions that lack, and what stands in the way.
Deletion = tuple[list[Any], dict[str, Any], set[str], list[Any]]


class OneQuery(ChangeList):
    """A page of a list, read together with one row of the next: nothing is counted, however long the list is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = capfirst(self.opts.verbose_name_plural)

    def get_results(self, request: HttpRequest) -> None:
        self.page_num: int = min(max(self.page_num, 1), MOST_PAGES)
        start = (self.page_num - 1) * self.list_per_page
        rows = list(self.queryset[start : start + self.list_per_page + 1])
        self.result_list = rows[: self.list_per_page]
        self.first, self.last = start + 1, start + len(self.result_list)
        # As many as are shown: an action is for the rows of the page, never for "all", which nobody has counted.
        self.result_count = self.full_result_count = len(self.result_list)
        self.show_full_result_count = self.can_show_all = self.multi_page = False
        self.show_admin_actions = bool(rows)
        self.paginator = None
        self.previous_url = self.get_query_string({PAGE_VAR: self.page_num - 1}) if self.page_num > 1 else ""
        more = len(rows) > self.list_per_page
        self.next_url = self.get_query_string({PAGE_VAR: self.page_num + 1}) if more else ""


class DomainForm(forms.ModelForm):
    """A form whose values the domain judges. `refusal` is why it would not take what was sent."""

    refusal: TopicsError | None = None

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.refusal is not None:
            message = self.refusal.message
            place = PATH.search(message)
            field = place[1] if place and place[1] in self.fields else None
            self.add_error(field, PATH.sub("", message) if field else message)
        return cleaned


class DomainAdmin(admin.ModelAdmin):
    """Pages over the functions that the API calls: what they refuse changes nothing, and the form says why.

    Lists go by templates/admin/topics/pagination.html, which each app includes as its own. `nothing_yet`: what an empty one says.
    """

    nothing_yet: str
    list_per_page = 100
    show_full_result_count = False
    show_facets = ShowFacets.NEVER

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return OneQuery

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        # Fields of the form's own, beside the model's, are there only where the page shows them.
        shown = flatten_fieldsets(self.get_fieldsets(request, obj))
        form.base_fields = {name: field for name, field in form.base_fields.items() if name in shown}
        form.refusal = getattr(request, "refusal", None)
        return form

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except TopicsError as error:
            # Its transaction is rolled back. The second time the form is invalid, and shows the reason.
            request.refusal = error
            return super().changeform_view(request, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return super().delete_view(request, *args, **kwargs)
        except TopicsError as error:
            return refused(request, error)

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return super().changelist_view(request, *args, **kwargs)
        except TopicsError as error:  # by an action
            return refused(request, error)


def refused(request: HttpRequest, error: TopicsError) -> HttpResponse:
    messages.error(request, error.message)
    return HttpResponseRedirect(request.get_full_path())


def as_struct(values: dict[str, Any], shape: type[S]) -> S:
    """The values as one of the API's bodies. Raises InvalidRequest with the API's words."""
    try:
        return msgspec.convert(values, shape)
    except msgspec.ValidationError as error:
        raise InvalidRequest(hints.in_words(str(error))) from error


def choice_column(field: str) -> Any:
    """A column of a list with a choice as the API spells it."""

    @admin.display(ordering=field, description=field)
    def value(obj: Any) -> str:
        return str(getattr(obj, field))

    return value
