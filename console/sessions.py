"""The sessions of browsers, in PostgreSQL (the setting SESSION_ENGINE)."""

from __future__ import annotations

from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError

from store.database import translated


class SessionStore(db.SessionStore):
    def save(self, must_create: bool = False) -> None:
        """Saves the session. Raises NotReady if PostgreSQL is away, where Django says that the session was deleted (400)."""
        try:
            super().save(must_create)
        except UpdateError as error:
            known = translated(error.__context__) if error.__context__ is not None else None
            if known is None:
                raise
            raise known from error
