"""Base classes of the admin's pages: one query for a list, and errors of the domain as errors of the form."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from django import forms
from django.contrib import admin, messages
from django.contrib.admin.options import ShowFacets
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.text import capfirst

from base.errors import InvalidRequest, TopicsError
from topics.stale import StaleCheck
from wire.request import hints

PATH = re.compile(r" - at `\$\.(\w+)(?:\[\.\.\.\])?`$")  # the place of msgspec's error
MOST_PAGES = 10**12  # limits the page of an address: PostgreSQL counts rows up to 2**63
S = TypeVar("S", bound=msgspec.Struct)
# Contents of a confirmation page: lines, a number for each kind, missing permissions, and obstacles.
Deletion = tuple[list[Any], dict[str, Any], set[str], list[Any]]


class OneQuery(ChangeList):
    """A page of a list. The query reads the rows of the page and one more. No query counts rows, so long lists stay fast."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = capfirst(self.opts.verbose_name_plural)

    def get_results(self, request: HttpRequest) -> None:
        self.page_num: int = min(max(self.page_num, 1), MOST_PAGES)
        start = (self.page_num - 1) * self.list_per_page
        rows = list(self.queryset[start : start + self.list_per_page + 1])
        self.result_list = rows[: self.list_per_page]
        self.first, self.last = start + 1, start + len(self.result_list)
        # The number of shown rows: an action applies to the rows of the page, never to "all", because no query counted them.
        self.result_count = self.full_result_count = len(self.result_list)
        self.show_full_result_count = self.can_show_all = self.multi_page = False
        self.show_admin_actions = bool(rows)
        self.paginator = None
        self.previous_url = self.get_query_string({PAGE_VAR: self.page_num - 1}) if self.page_num > 1 else ""
        more = len(rows) > self.list_per_page
        self.next_url = self.get_query_string({PAGE_VAR: self.page_num + 1}) if more else ""


class DomainForm(StaleCheck, forms.ModelForm):
    """A form that shows an error of the domain. `refusal`: the reason why the domain refused the values."""

    refusal: TopicsError | None = None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if self.refusal is not None:
            message = self.refusal.message
            place = PATH.search(message)
            field = place[1] if place and place[1] in self.fields else None
            self.add_error(field, PATH.sub("", message) if field else message)
        return cleaned


class DomainAdmin(admin.ModelAdmin):
    """Pages that call the functions of the API. If a function raises an error, nothing changes, and the form shows the reason.

    Lists use templates/admin/topics/pagination.html, which each app includes under its own path. `nothing_yet`: the text of
    an empty list.
    """

    nothing_yet: str
    list_per_page = 100
    show_full_result_count = False
    show_facets = ShowFacets.NEVER

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return OneQuery

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Returns whether an address may filter the list by this: by its filters alone. Django also allows each field of the
        model, so a user could find a secret that no page shows, letter by letter."""
        filters = self.get_list_filter(request)
        return lookup.partition(LOOKUP_SEP)[0] in [getattr(each, "parameter_name", each) for each in filters]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Shows no buttons to save on a page that has nothing to change."""
        if not context["adminform"].form.fields:
            context |= {"show_save": False, "show_save_and_continue": False, "show_save_and_add_another": False}
        return super().render_change_form(request, context, *args, **kwargs)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        # The form has fields beside those of the model. Keep only the fields that the page shows.
        shown = flatten_fieldsets(self.get_fieldsets(request, obj))
        form.base_fields = {name: field for name, field in form.base_fields.items() if name in shown}
        form.refusal = getattr(request, "refusal", None)
        return form

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except TopicsError as error:
            # The transaction is rolled back. The second call shows the form as invalid, with the reason.
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
        except TopicsError as error:  # from an action
            return refused(request, error)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for each in queryset:
            self.delete_model(request, each)

    def found(self, request: HttpRequest, id: int, is_allowed: Callable[[HttpRequest, Any], bool]) -> Any:
        """Returns an object, if the user has a permission for it, such as `has_change_permission`.

        Raises Http404 or PermissionDenied.
        """
        found = self.get_object(request, str(id))
        if found is None:
            raise Http404
        if not is_allowed(request, found):
            raise PermissionDenied
        return found

    def page(self, request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
        """Returns a page beside those of Django."""
        shared = {**self.admin_site.each_context(request), "opts": self.opts, "title": title}
        return TemplateResponse(request, f"admin/{template}.html", {**shared, **context})


class ReadOnlyAdmin(DomainAdmin):
    """Pages without add, change and delete, because only the server writes these rows."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def refused(request: HttpRequest, error: TopicsError) -> HttpResponse:
    messages.error(request, error.message)
    return HttpResponseRedirect(request.get_full_path())


def as_struct(values: dict[str, Any], shape: type[S]) -> S:
    """Returns the values as a body of the API. Raises InvalidRequest with the API's message."""
    try:
        return msgspec.convert(values, shape)
    except msgspec.ValidationError as error:
        raise InvalidRequest(hints.in_words(str(error))) from error


def choice_column(field: str) -> Any:
    """Returns a list column that shows a choice as the API spells it."""

    @admin.display(ordering=field, description=field)
    def value(obj: Any) -> str:
        return str(getattr(obj, field))

    return value
