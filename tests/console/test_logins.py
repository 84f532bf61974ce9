"""Logins: what they leave behind has an end, and a session that cannot be saved is told as what it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client

from console import logins

NOW = 1_764_000_000_000
pytestmark = pytest.mark.django_db(transaction=True)


def test_old_sessions_and_notes_of_logins_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "STEP", 300)
    at = datetime.fromtimestamp(NOW / 1000, UTC)
    notes = (AccessAttempt, AccessFailureLog, AccessLog)
    for model in (Session, *notes):
        model.objects.all().delete()
    Session.objects.bulk_create(
        Session(session_key=f"{n}", session_data="", expire_date=at + timedelta(hours=1 if n == 0 else -1))
        for n in range(1_001)
    )
    for model in notes:
        needed = {"failures_since_start": 1} if model is AccessAttempt else {}
        model.objects.bulk_create(model(username=f"{n}", ip_address="127.0.0.1", **needed) for n in range(1_001))
        model.objects.update(attempt_time=at - timedelta(days=91))
        model.objects.filter(username="0").update(attempt_time=at - timedelta(days=89))
    logins.drop_old(NOW)
    assert list(Session.objects.values_list("session_key", flat=True)) == ["0"]
    for model in notes:
        assert list(model.objects.values_list("username", flat=True)) == ["0"]


REFUSING = """
CREATE FUNCTION pg_temp.refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE read_only_sql_transaction; END $$;
CREATE TRIGGER refusing BEFORE UPDATE ON django_session FOR EACH ROW EXECUTE FUNCTION pg_temp.refuse();
"""


def test_a_session_that_postgresql_does_not_save_is_503() -> None:
    """A login creates its session, then saves it. PostgreSQL becomes read only between the two."""
    User.objects.create_superuser("ada", password="ada")
    client = Client(raise_request_exception=False)
    form = {"username": "ada", "password": "ada"}
    with connection.cursor() as cursor:
        cursor.execute(REFUSING)
        try:
            refused = client.post("/admin/login/", form)
        finally:
            cursor.execute("DROP TRIGGER refusing ON django_session")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert "PostgreSQL is read only" in refused.content.decode()
    assert client.post("/admin/login/", form).status_code == 302
