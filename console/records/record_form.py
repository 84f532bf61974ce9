"""Fields of a form for a record: a test record, or the jobs of a schedule."""

from __future__ import annotations

import msgspec
from django import forms

from base.depth import too_deep
from base.errors import InvalidRequest
from topics.append.records import NewRecord
from wire.request.parse import parse

JSON_FIELDS = ("data", "meta")


class RecordForm(forms.Form):
    data = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}), strip=False, help_text="A JSON value."
    )
    tag = forms.CharField(required=False, strip=False)
    node = forms.CharField(required=False, strip=False)
    meta = forms.CharField(
        required=False, strip=False, widget=forms.TextInput(attrs={"spellcheck": "false"}), help_text="A JSON object."
    )

    def record(self) -> NewRecord:
        """Returns the record. Raises InvalidRequest with the API's messages."""
        given = {name: self.cleaned_data[name] for name in NewRecord.__struct_fields__ if self.cleaned_data[name]}
        fields = {name: as_json(name, text) if name in JSON_FIELDS else text for name, text in given.items()}
        return parse(msgspec.json.encode(fields), NewRecord)


def as_json(name: str, text: str) -> msgspec.Raw:
    """Returns the text of exactly one JSON value. Raises InvalidRequest.

    A browser sends the line ends of a text area as CR LF. Strings of JSON have their line ends as escapes, so no value changes.
    """
    try:
        return msgspec.json.decode(text.replace("\r\n", "\n").encode(), type=msgspec.Raw)
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"invalid JSON in {name}: {error}") from error
    except RecursionError as error:
        raise too_deep("the JSON") from error
