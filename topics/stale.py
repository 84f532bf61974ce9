"""Forms that refuse to be saved from a page that is older than another person's change."""

from __future__ import annotations

import hashlib
from typing import Any

from django import forms


class StaleCheck(forms.BaseForm):
    """A form of an object that refuses to be saved if another person changed the object while the page was open.

    Otherwise the fields of the old page would undo that change, for example give back a scope that was taken from a key. The page
    sends `shown` back. A page without it, such as that of a new object, is not checked.
    """

    @property
    def shown(self) -> str:
        """The values that the page shows first, as a digest."""
        return str(self.data.get("shown", self.digest()))

    def digest(self) -> str:
        """Returns a digest of the values that the object has now."""
        values = [(name, self.get_initial_for_field(field, name)) for name, field in sorted(self.fields.items())]
        return hashlib.sha256(repr(values).encode()).hexdigest()

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.shown != self.digest():
            self.add_error(None, "This was changed while the page was open: open the page again.")
        return cleaned
