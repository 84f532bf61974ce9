"""archive, verify, restore: each record once in Parquet, also after failures, and restored byte for byte."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from base.clock import now_ms
from base.errors import NotReady, TopicNotFound
from base.refusal import Refusal
from mirrors.handover import Handover, receive
from pipeline.archive.files import LocalFiles
from pipeline.jobs.archive import TopicArchive
from pipeline.models import Run
from pipeline.runs.running import perform
from pipeline.runs.work import Work
from pipeline.write import written
from store.script import run
from tests import scripts
from tests.log.test_reclaim import mirror
from tests.pipeline.filling import ODD, fill, numbers, rows
from topics.append.copies import CopiedRecord

DAY_MS = 86_400_000
DEEP = "[" * 200 + "]" * 200  # more levels than an append takes (base/depth.py)


def seqs(spark: SparkSession, path: Path) -> list[int]:
    """What somebody finds who reads the folder with Spark and knows nothing else of it."""
    return sorted(row.seq for row in spark.read.parquet(str(path)).select("seq").collect())


def archive(path: Path, topic: str = "orders", **more: object) -> Run:
    return perform("archive", {"topic": topic, "out": str(path), **more})


def test_it_works(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    now = now_ms()
    fill("orders", ODD, now=now - DAY_MS, tag=["a:1"] * len(ODD), node=["n"] * len(ODD), meta=[b'{"k":1.0}'] * len(ODD))
    numbers("orders", 100, now=now)
    run = archive(tmp_path / "out")
    assert (run.state, run.read, run.written) == ("done", 111, 111)
    days = [path.name for path in sorted((tmp_path / "out" / "topic=orders").iterdir())]
    assert len(days) == 2
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("seq").collect()
    assert [row.data.encode() for row in found[: len(ODD)]] == ODD
    first = found[0]
    assert (first.topic, first.seq, first.tag, first.node, first.meta) == ("orders", 1, "a:1", "n", '{"k":1.0}')
    assert rows("SELECT kind, seq FROM topics_cursor") == [("pipeline", 111)]
    verified = perform("verify", {"topic": "orders", "archive": str(tmp_path / "out")})
    assert (verified.state, verified.report["records"]) == ("done", 111)


def test_a_path_is_no_pattern(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 20, now=now_ms() - DAY_MS)
    numbers("orders", 20)
    out = tmp_path / "of [2026]" / "{a,b}" / "every*?^"
    archive(out, trim=True)
    numbers("orders", 10)
    archive(out)
    assert len(list(out.glob("topic=orders/day=*/*.parquet"))) >= 3
    verified = perform("verify", {"topic": "orders", "archive": str(out)})
    assert (verified.state, verified.report["records"]) == ("done", 50)
    restored = perform("restore", {"archive": str(out), "topic": "again", "source": "orders"})
    assert restored.written == 50


def test_a_second_run_adds_what_is_new(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    for _ in range(3):
        numbers("orders", 50)
        archive(tmp_path, step=40)
    archive(tmp_path)
    assert seqs(spark, tmp_path) == list(range(1, 151))
    assert len(list((tmp_path / "_segments" / "orders").glob("*.json"))) == 6
    assert not list((tmp_path / "_staging").glob("*"))


@pytest.mark.guarantee("S3")
@pytest.mark.parametrize("killed_before", ["publish", "write_json", "end"])
def test_a_step_that_was_killed_is_done_again(
    spark: SparkSession, dsn: str, tmp_path: Path, killed_before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers("orders", 60)
    with monkeypatch.context() as patch:
        owner, name = {
            "publish": (TopicArchive, "publish"),
            "write_json": (LocalFiles, "write_json"),
            "end": (__import__("pipeline.runs.reading", fromlist=["reading"]), "end"),
        }[killed_before]
        patch.setattr(owner, name, die)
        with pytest.raises(KeyboardInterrupt):
            archive(tmp_path)
    numbers("orders", 40)  # the step ends where it was planned to, and these are the next one's
    archive(tmp_path)
    assert seqs(spark, tmp_path) == list(range(1, 101))
    assert perform("verify", {"topic": "orders", "archive": str(tmp_path)}).state == "done"


def die(*_: object) -> None:
    raise KeyboardInterrupt


def test_trim_deletes_what_is_archived(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 30)
    run = archive(tmp_path, trim=True)
    numbers("orders", 5)
    assert run.report["topics"][0]["trimmed"] == 30
    assert rows("SELECT floor_seq, count FROM topics_topichead") == [(30, 5)]
    archive(tmp_path)
    assert seqs(spark, tmp_path) == list(range(1, 36))
    assert perform("verify", {"topic": "orders", "archive": str(tmp_path)}).state == "done"


def test_a_trim_that_was_killed_is_done_by_the_next_run(
    spark: SparkSession, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers("orders", 30)
    with monkeypatch.context() as patch:
        patch.setattr("pipeline.jobs.archive.delete_records", die)
        with pytest.raises(KeyboardInterrupt):
            archive(tmp_path, trim=True)
    assert rows("SELECT floor_seq, count FROM topics_topichead") == [(0, 30)]
    numbers("orders", 5)
    assert archive(tmp_path, trim=True).report["topics"][0]["trimmed"] == 35
    assert seqs(spark, tmp_path) == list(range(1, 36))


def test_trim_leaves_what_does_not_read_back(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 30)
    archive(tmp_path)
    listed = next((tmp_path / "_segments" / "orders").glob("*.json"))
    listed.write_text(json.dumps(json.loads(listed.read_text()) | {"checksum": 1}))
    (listed.parent / f".{listed.name}.crc").unlink(missing_ok=True)
    with pytest.raises(Refusal, match="does not read back"):
        archive(tmp_path, trim=True)
    assert rows("SELECT floor_seq FROM topics_topichead") == [(0,)]
    assert perform("verify", {"topic": "orders", "archive": str(tmp_path)}).report["damaged"]


def test_trim_leaves_what_the_archive_lacks(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    """A folder that is not mounted, and one that lost the first or the last of its segments."""
    numbers("orders", 20)
    archive(tmp_path)
    scripts.delete_topic("orders", False, now_ms())
    numbers("orders", 30)  # with the seqs 21 to 50
    archive(tmp_path, step=15)
    ((topic_id,),) = rows("SELECT id FROM topics_topic")
    listed = tmp_path / "_segments" / "orders"
    first, last = (listed / f"{topic_id}-{n:019}-{n + 14:019}.json" for n in (21, 36))
    for gone, missing in ((first, "21..35"), (last, "36..50")):
        away = gone.rename(gone.with_suffix(".away"))
        with pytest.raises(Refusal, match=f"lacks orders {missing}, which was archived there: not trimmed"):
            archive(tmp_path, trim=True)
        verified = perform("verify", {"topic": "orders", "archive": str(tmp_path)})
        assert (verified.state, verified.report["missing"]) == ("wrong", [missing])
        away.rename(gone)
    away = tmp_path.rename(tmp_path.with_name("away"))
    with pytest.raises(Refusal, match=r"lacks orders 21\.\.50"):
        archive(tmp_path, trim=True)
    assert rows("SELECT floor_seq, count FROM topics_topichead") == [(20, 30)]
    away.rename(tmp_path)
    assert archive(tmp_path, trim=True).report["topics"][0]["trimmed"] == 30
    assert perform("verify", {"topic": "orders", "archive": str(tmp_path)}).state == "done"


def test_verify_tells_deleted_records_from_missing_and_altered_ones(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    numbers("orders", 20, tag=[f"t{n}" for n in range(1, 21)])
    archive(tmp_path)
    scripts.delete_records("orders", None, ["tag", "Eq", "t7"], now_ms())
    run = perform("verify", {"topic": "orders", "archive": str(tmp_path)})
    assert (run.state, run.report["deleted_since"]) == ("done", 1)
    rows("UPDATE topics_record SET data = '\"other\"' WHERE seq = 9 RETURNING seq")
    rows("UPDATE topics_record SET deleted = false WHERE seq = 7 RETURNING seq")
    run = perform("verify", {"topic": "orders", "archive": str(tmp_path)})
    assert (run.state, run.report["altered"], run.report["missing"]) == ("wrong", [9], [])


def test_verify_names_damaged_segments_and_compares_the_others(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    """A segment whose file has a flipped byte, one whose file is cut, one without its file, and one whose list is damaged."""
    numbers("orders", 50)
    archive(tmp_path, step=10)
    flipped, cut, gone = (next(tmp_path.rglob(f"*-{n:019}-{n + 9:019}-*.parquet")) for n in (1, 11, 21))
    listed = next((tmp_path / "_segments" / "orders").glob(f"*-{31:019}-*.json"))
    (listed.parent / f".{listed.name}.crc").unlink(missing_ok=True)
    for file in (flipped, listed):
        content = file.read_bytes()
        file.write_bytes(content[:20] + bytes([content[20] ^ 255]) + content[21:])
    cut.write_bytes(cut.read_bytes()[:100])
    gone.unlink()
    rows("UPDATE topics_record SET data = '\"other\"' WHERE seq = 49 RETURNING seq")
    run = perform("verify", {"topic": "orders", "archive": str(tmp_path)})
    ((topic_id,),) = rows("SELECT id FROM topics_topic")
    assert run.state == "wrong"
    assert sorted(run.report["damaged"]) == [f"{topic_id}-{n:019}-{n + 9:019}" for n in (1, 11, 21, 31)]
    assert (run.report["altered"], run.report["missing"]) == ([49], [])


@pytest.mark.guarantee("S3")
def test_restore_brings_back_every_byte_once(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    fill(
        "orders", ODD, tag=[f"t:{n}" for n in range(len(ODD))], node=["n"] * len(ODD), meta=[b'{"a" : 1.50}'] * len(ODD)
    )
    fill("orders", ODD)
    archive(tmp_path, step=7)
    sent = "SELECT tag, node, meta::text, data::text FROM topic_log WHERE topic = %s ORDER BY seq"
    options = {"archive": str(tmp_path), "source": "orders", "topic": "copy"}
    assert perform("restore", options).report == {"records": 22, "left_out": [], "missing": []}
    assert rows(sent, "copy") == rows(sent, "orders")
    assert perform("restore", options).report == {"records": 0, "left_out": [], "missing": []}
    numbers("orders", 5)
    archive(tmp_path)  # and only what is new in the archive
    assert perform("restore", options).report == {"records": 5, "left_out": [], "missing": []}
    part = {**options, "topic": "part", "from_seq": 20, "to_seq": 25}
    assert perform("restore", part).report == {"records": 5, "left_out": [], "missing": []}


def test_restore_tells_which_segments_are_gone(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 50)
    archive(tmp_path, step=10)
    next((tmp_path / "_segments" / "orders").glob(f"*-{21:019}-*.json")).unlink()
    options = {"archive": str(tmp_path), "source": "orders", "topic": "copy"}
    run = perform("restore", options)
    assert run.report == {"records": 40, "left_out": [], "missing": ["21..30"]}
    assert f"{tmp_path} lacks the seqs 21..30: they were never archived there, or their files are lost" in run.summary
    part = {**options, "topic": "part", "from_seq": 30}
    assert perform("restore", part).report == {"records": 20, "left_out": [], "missing": []}


def test_restore_brings_back_records_of_a_mirror(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    """Their meta has a stamp, which an append cannot write, beside as many keys and bytes as an append can."""
    meta = json.dumps({f"key-{n:02}": "x" * 240 for n in range(64)}, separators=(",", ":")).encode()
    record = CopiedRecord(data=msgspec.Raw(b"1"), seq=7, ts=now_ms(), meta=msgspec.Raw(meta))
    wanted = Handover(here="fra", source="iad", from_seq=0, next_from_seq=7, records=[record])
    run(receive("orders", wanted, now_ms()))
    archive(tmp_path)
    options = {"archive": str(tmp_path), "source": "orders", "topic": "copy"}
    assert perform("restore", options).report == {"records": 1, "left_out": [], "missing": []}
    ((restored,),) = rows("SELECT meta::text FROM topic_log WHERE topic = 'copy'")
    assert restored.startswith(meta.decode()[:-1] + ',"_topics_mirror":{"topic":"orders","site":"iad","seq":7,')


@pytest.mark.parametrize("chunk", [1, 10_000])
def test_restore_leaves_out_records_that_are_too_deep(
    spark: SparkSession,
    dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    chunk: int,
) -> None:
    monkeypatch.setattr("pipeline.write.chunks.CHUNK_RECORDS", chunk)
    numbers("orders", 5)
    rows("UPDATE topics_record SET data = %s::json WHERE seq = 1 RETURNING seq", DEEP)
    rows("UPDATE topics_record SET meta = %s::json WHERE seq = 4 RETURNING seq", f'{{"a":{DEEP}}}')
    rows("UPDATE topics_record SET data = %s::json WHERE seq = 5 RETURNING seq", json.dumps({"text": DEEP}))
    archive(tmp_path)
    options = {"archive": str(tmp_path), "source": "orders", "topic": "copy"}
    run = perform("restore", options)
    assert (run.state, run.written, run.report) == ("done", 3, {"records": 3, "left_out": [1, 4], "missing": []})
    assert "into copy, and 2 records left out, because of more than 128 levels: seq 1, 4 (" in run.summary
    assert "left out of copy, because of more than 128 levels: seq 1" in caplog.text
    sent = "SELECT data::text FROM topic_log WHERE topic = %s AND NOT seq = ANY (%s) ORDER BY seq"
    assert rows(sent, "copy", []) == rows(sent, "orders", [1, 4])
    assert perform("restore", options).report == {"records": 0, "left_out": [], "missing": []}
    numbers("orders", 2)
    archive(tmp_path)
    assert perform("restore", options).report == {"records": 2, "left_out": [], "missing": []}
    assert rows(sent, "copy", []) == rows(sent, "orders", [1, 4])


def test_a_restore_continues_where_a_release_ended_that_took_deep_records(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    numbers("orders", 3)
    archive(tmp_path)
    options = {"archive": str(tmp_path), "source": "orders", "topic": "copy"}
    assert perform("restore", options).written == 3
    file = next(tmp_path.rglob("*.parquet"))
    held = pq.ParquetFile(file).read()
    place = held.column_names.index("data")
    pq.write_table(held.set_column(place, "data", pa.array([DEEP, *held["data"].to_pylist()[1:]])), file)
    numbers("orders", 2)
    archive(tmp_path)
    assert perform("restore", options).report == {"records": 2, "left_out": [], "missing": []}
    assert rows("SELECT count(*) FROM topic_log WHERE topic = 'copy'") == [(5,)]


def test_a_restore_continues_where_a_run_was_killed(
    spark: SparkSession, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from several files, of which the first is appended in part."""
    numbers("orders", 200, tag=["odd" if n % 2 else "even" for n in range(200)])
    scripts.delete_records("orders", 50, ["tag", "Eq", "odd"], now_ms())
    archive(tmp_path, step=90)
    options = {"archive": str(tmp_path), "source": "orders", "topic": "copy", "from_seq": 3, "to_seq": 190}
    monkeypatch.setattr("pipeline.write.chunks.CHUNK_RECORDS", 10)
    appended: list[int] = []

    def killed(*arguments: Any) -> int | None:
        if len(appended) == 3:
            raise OSError("killed")
        appended.append(append_chunk(*arguments) or 0)
        return appended[-1]

    append_chunk = written.append_chunk
    with monkeypatch.context() as patch:
        patch.setattr(written, "append_chunk", killed)
        with pytest.raises(OSError, match="killed"):
            perform("restore", options)
    assert appended == [10, 20, 30]
    assert perform("restore", options).written == 164 - 30
    sent = "SELECT data::text FROM topic_log WHERE topic = %s AND seq > %s AND seq <= %s ORDER BY seq"
    assert rows(sent, "copy", 0, 1000) == rows(sent, "orders", 3, 190)


def test_hadoop_gives_the_files_of_an_archive(
    spark: SparkSession, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))  # then only Hadoop knows which file system a path is of
    numbers("orders", 20)
    archive(tmp_path / "out", step=7, trim=True)
    run = perform("restore", {"archive": str(tmp_path / "out"), "source": "orders", "topic": "copy"})
    assert run.written == 20
    assert rows("SELECT data::text FROM topic_log WHERE topic = 'copy' AND seq = 20") == [('{"n":20}',)]


def test_a_restore_refuses_files_that_were_changed(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 2000)
    archive(tmp_path)
    file = next(tmp_path.rglob("*.parquet"))
    content = file.read_bytes()
    options = {"archive": str(tmp_path), "source": "orders", "topic": "copy"}
    seqs = pq.ParquetFile(file).metadata.row_group(0).column(1)
    middle = seqs.data_page_offset + seqs.total_compressed_size // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    for damaged in (flipped, content[:1000], None):
        file.unlink() if damaged is None else file.write_bytes(damaged)
        with pytest.raises(Refusal, match=rf"{file.name} cannot be read: "):
            perform("restore", options)
    pq.write_table(pq.ParquetFile(pa.BufferReader(content)).read().sort_by([("seq", "descending")]), file)
    with pytest.raises(Refusal, match=r"is not in the order of seqs"):
        perform("restore", options)
    assert rows("SELECT count(*) FROM topic_log WHERE topic = 'copy'") == [(0,)]
    file.write_bytes(content)
    assert perform("restore", options).written == 2000


def test_forwarded_records_are_archived_as_they_are_seen(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 10, node=["n"] * 10)
    mirror("orders", "audit", preserve_node=False)
    archive(tmp_path, "audit")
    found = spark.read.parquet(str(tmp_path)).collect()
    assert {(row.home_topic, row.hops, row.node) for row in found} == {("orders", 1, None)}


def test_all_topics_with_a_prefix_and_an_empty_one(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("shop:a", 3)
    numbers("shop:b", 4)
    numbers("shop:empty", 1)
    scripts.delete_records("shop:empty", 2, None, now_ms())
    assert archive(tmp_path, "shop:*").written == 7
    assert {row.topic for row in spark.read.parquet(str(tmp_path)).collect()} == {"shop:a", "shop:b"}


def test_a_recreated_topic_is_another_in_the_archive(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 3)
    archive(tmp_path)
    first = scripts.look_up("orders").id
    scripts.delete_topic("orders", False, now_ms())
    numbers("orders", 5)
    archive(tmp_path)
    assert len(seqs(spark, tmp_path)) == 8
    with pytest.raises(Refusal, match="choose one with --epoch"):
        perform("restore", {"archive": str(tmp_path), "topic": "orders"})
    assert (
        perform("restore", {"archive": str(tmp_path), "topic": "old", "source": "orders", "epoch": first}).written == 3
    )


@pytest.mark.guarantee("S3")
@pytest.mark.parametrize("begun_by", ["this version", "an older version"])
def test_a_restore_is_the_same_by_other_names(spark: SparkSession, dsn: str, tmp_path: Path, begun_by: str) -> None:
    """With its epoch, which the archive of a topic that was created again needs, and by a symbolic link."""
    numbers("orders", 3)
    archive(tmp_path / "out")
    options = {"archive": str(tmp_path / "out"), "topic": "copy", "source": "orders"}
    assert perform("restore", options).written == 3
    if begun_by == "an older version":
        told = repr((f"file:{tmp_path / 'out'}", "orders", None, 0, None))
        name = f"write:restore:{hashlib.sha256(told.encode()).hexdigest()[:16]}"
        assert rows("UPDATE pipeline_written SET writer = %s RETURNING records", name) == [(3,)]
        assert perform("restore", options).written == 0
    first = scripts.look_up("orders").id
    scripts.delete_topic("orders", False, now_ms())
    numbers("orders", 5)
    archive(tmp_path / "out")
    second = scripts.look_up("orders").id
    assert [perform("restore", {**options, "epoch": epoch}).written for epoch in (first, second, second)] == [0, 5, 0]
    (tmp_path / "link").symlink_to(tmp_path / "out")
    assert perform("restore", {**options, "archive": str(tmp_path / "link"), "epoch": second}).written == 0
    assert rows("SELECT count(*) FROM topic_log WHERE topic = 'copy'") == [(8,)]


def test_an_archive_that_is_ahead_of_the_database_is_refused(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 10)
    archive(tmp_path)
    rows("UPDATE topics_cursor SET seq = 5 RETURNING seq")
    with pytest.raises(Refusal, match="holds orders up to seq 10, and this database knows of 5"):
        archive(tmp_path)


def test_what_cannot_be_archived_is_refused(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    with pytest.raises(TopicNotFound):
        archive(tmp_path, "nothing")
    numbers("orders", 1)
    with pytest.raises(Refusal, match="is no path that Spark can use"):
        perform("archive", {"topic": "orders", "out": "ftps3://nowhere"})
    assert Run.objects.latest("id").state == "failed"


def test_a_topic_deleted_while_it_is_archived_leaves_nothing_half(
    spark: SparkSession, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers("orders", 10)
    write = TopicArchive.write_parquet

    def deleted_meanwhile(self: TopicArchive, *what: Any) -> tuple[int, int]:
        scripts.delete_topic("orders", False, now_ms())
        return write(self, *what)

    monkeypatch.setattr(TopicArchive, "write_parquet", deleted_meanwhile)
    with pytest.raises(NotReady, match="'orders' was deleted while it was read"):
        archive(tmp_path)
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_topic_trimmed_while_it_is_archived_is_told(
    spark: SparkSession, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers("orders", 10)
    write = TopicArchive.write_parquet

    def trimmed_meanwhile(self: TopicArchive, *what: Any) -> tuple[int, int]:
        scripts.delete_records("orders", 4, None, now_ms())
        return write(self, *what)

    monkeypatch.setattr(TopicArchive, "write_parquet", trimmed_meanwhile)
    assert archive(tmp_path).report["topics"][0]["missed"] == 3
    assert seqs(spark, tmp_path) == list(range(4, 11))


def test_a_run_with_nothing_new_starts_no_spark(
    spark: SparkSession, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers("orders", 20)
    archive(tmp_path, trim=False)
    restore = {"archive": str(tmp_path), "topic": "again", "source": "orders"}
    perform("restore", restore)
    perform("rollup", {})
    perform("latest", {"topic": "orders", "into": "last"})
    perform("rollup", {})
    monkeypatch.setattr(Work, "spark", property(lambda _: pytest.fail("Spark was started")))
    assert archive(tmp_path).written == 0
    assert perform("restore", restore).written == 0
    assert perform("latest", {"topic": "orders", "into": "last"}).written == 0
    assert perform("rollup", {}).read == 0
    monkeypatch.undo()
    numbers("orders", 20)
    archive(tmp_path)
    assert perform("restore", restore).written == 20


def test_a_topic_id_is_a_long(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 1)
    archive(tmp_path)
    kinds = dict(spark.read.parquet(str(tmp_path)).dtypes)
    assert (kinds["topic_id"], kinds["home_topic_id"]) == ("bigint", "bigint")


def test_a_file_system_that_spark_lacks_is_told_in_one_line(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 1)
    with pytest.raises(
        Refusal, match=r"needs the package org\.apache\.hadoop:hadoop-aws:3[0-9.]+: write .* spark-defaults\.conf"
    ) as told:
        perform("archive", {"topic": "orders", "out": "s3a://bucket/archive"})
    assert "\n" not in str(told.value)
