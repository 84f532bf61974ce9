"""A disk that fills up: appends are refused in time, reads go on, nothing breaks, and room heals it."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from django.test import RequestFactory

from base.errors import StorageFull
from embedded.postgres import wal_limits
from store.database import prepared, translated
from tests.instances import WHOLE, Instance, free_port, until
from tests.project.signing_in import Page, ask
from wire.documents.docs import failed

pytestmark = pytest.mark.deep(40)


MEGABYTE = 2**20
RECORDS = json.dumps({"records": [{"data": "x" * 1000} for _ in range(2000)]})


def mount(options: str, folder: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True, capture_output=True)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Instance]:
    """An instance on a disk of 400 MB."""
    if os.geteuid() != 0:
        pytest.skip("NOT TRIED: only root can mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("size=400m", folder)
    instance = Instance(folder, free_port(), {"WEB_WORKERS": "1"})
    try:
        instance.start()
        yield instance
    finally:
        instance.end()
        subprocess.run(["umount", "-l", folder], check=True)


def append(instance: Instance, topic: str) -> Page:
    return ask(instance, "POST", f"/v0/topics/{topic}", RECORDS, Content_Type="application/json")


def test_a_full_disk_refuses_appends_and_nothing_else(small: Instance) -> None:
    refused = until(lambda: page if (page := append(small, "full")).status == 503 else None, "the disk to fill", 300)
    assert json.loads(refused.body)["error"]["code"] == "storage_full"
    assert refused.headers["retry-after"] == "5"
    for _ in range(20):
        assert append(small, "full").status == 503
    assert json.loads(small.get("/v0/topics/full/records?limit=1")[1])["records"][0]["$seq"] == 1
    assert json.loads(small.get("/v0/ready")[1])["degraded"] == ["storage_full"]
    assert ask(small, "PUT", "/v0/topics/another", "{}", Content_Type="application/json").status == 201
    assert (
        ask(small, "POST", "/v0/topics/full/delete", '{"before_seq": 9}', Content_Type="application/json").status == 200
    )

    mount("remount,size=700m", small.data)
    until(lambda: append(small, "full").status == 200, "appends to go on when there is room")
    until(lambda: "degraded" not in small.get("/v0/ready")[1], "nothing to be degraded any more")
    log = (small.data / "logs" / "postgresql.log").read_text()
    assert "PANIC" not in log
    assert "was terminated" not in log


def test_what_the_wal_may_take_follows_the_disk() -> None:
    assert wal_limits(400 * MEGABYTE) == (64 * MEGABYTE, 96 * MEGABYTE)
    assert wal_limits(10_000 * MEGABYTE) == (1000 * MEGABYTE, 500 * MEGABYTE)
    assert wal_limits(10**13) == (4096 * MEGABYTE, 1024 * MEGABYTE)


@pytest.mark.django_db
def test_postgresql_that_runs_out_says_storage_full() -> None:
    from django.db import DatabaseError, connection

    with pytest.raises(DatabaseError) as raised, connection.cursor() as cursor:
        cursor.execute("DO $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$")
    assert isinstance(raised.value.__cause__, psycopg.errors.DiskFull)
    assert isinstance(translated(raised.value), StorageFull)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/admin/", "/v0/topics/any"])
def test_a_page_that_meets_a_full_disk_is_503(path: str) -> None:
    """A page needs PostgreSQL's disk, too: for a session, or for a sort that does not fit into memory."""
    from django.db import DatabaseError, connection

    try:
        with connection.cursor() as cursor:
            cursor.execute("DO $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$")
    except DatabaseError:
        answer = failed(RequestFactory().get(path))
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "disk is full" in answer.content.decode()


@pytest.mark.django_db
def test_a_page_whose_own_query_meets_a_full_disk_is_503() -> None:
    """The console's queries raise the domain's error themselves."""
    try:
        prepared("DO $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$", ())
    except StorageFull:
        answer = failed(RequestFactory().get("/admin/graph/"))
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")


def test_a_redis_that_is_full_does_not_keep_appends_from_their_topic(instances: Callable[..., Instance]) -> None:
    import redis

    instance = instances(**WHOLE)
    body = '{"source": "source", "dest": "dest"}'
    for topic in ("source", "dest"):
        assert append(instance, topic).status == 201
    assert ask(instance, "PUT", "/v0/routers/r", body, Content_Type="application/json").status == 201
    with redis.Redis.from_url(instance.servers.redis_url) as client:
        client.config_set("maxmemory", 1)
        client.config_set("maxmemory-policy", "noeviction")
        with pytest.raises(redis.OutOfMemoryError):
            client.set("a", "b")
        for _ in range(5):
            assert append(instance, "source").status == 200
        # A reader of a dest forwards waiting records itself.
        head = json.loads(instance.get("/v0/topics/dest/records?from_seq=11999&limit=5")[1])["head_seq"]
        assert head == 2000 + 5 * 2000
        client.config_set("maxmemory", 0)
    assert append(instance, "source").status == 200

    def forwarded() -> bool:
        with instance.connect() as connection:
            heads = connection.execute(
                "SELECT h.head_seq FROM topics_topichead h JOIN topics_topic t ON t.id = h.topic_id WHERE t.name = 'dest'"
            )
            return heads.fetchone() == (14_000,)

    until(forwarded, "the worker to forward again")
