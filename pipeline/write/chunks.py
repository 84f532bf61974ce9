"""Turns Arrow batches into chunks of checked records, encoded for the SQL function `pipeline_append`.

Checks and encoding work on whole columns: a Python object for each record would cost more than PostgreSQL's append.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from base.bounds import STAMP_BYTES, check_meta, check_token
from base.depth import MOST_DEPTH, SHALLOW_BYTES, depth, too_deep
from base.errors import InvalidRequest, RecordTooLarge

COLUMNS = ("data", "tag", "node", "meta")
CHUNK_RECORDS = 10_000  # a chunk ends at one of these sizes, with the piece that reached the size
CHUNK_BYTES = 8 * 1024 * 1024
SPACE = " \t\r\n"  # what JSON allows around a value. It is not stored
TEXTS = msgspec.json.Decoder(list[msgspec.Raw])
TEXT = msgspec.json.Decoder(msgspec.Raw)


class Chunk(NamedTuple):
    """Records to append: a JSON array for each column. `left_out`: the seqs of an archive's records that an append refuses."""

    records: int
    data: str
    tags: str
    nodes: str
    metas: str
    left_out: tuple[int, ...] = ()


class Bounds(NamedTuple):
    """The bounds of a record, as the server's settings of the same names have them.

    `is_copy`: an archive has the records, so `meta` can have stamps beyond the bounds, and records from before the bound for the
    depth are left out.
    """

    record_bytes: int
    meta_bytes: int
    meta_keys: int
    tag_bytes: int
    node_bytes: int
    is_copy: bool = False

    @classmethod
    def of_environment(cls, *, is_copy: bool = False) -> Bounds:
        """Returns the bounds of this process's environment, or the server's defaults."""
        defaults = {"RECORD_BYTES": 1024 * 1024, "META_BYTES": 16 * 1024, "META_KEYS": 64, "TAG_BYTES": 256}
        found = {name: int(os.environ.get(f"TOPICS_MAX_{name}") or defaults[name]) for name in defaults}
        node_bytes = int(os.environ.get("TOPICS_MAX_NODE_BYTES") or 128)
        return cls(
            found["RECORD_BYTES"], found["META_BYTES"], found["META_KEYS"], found["TAG_BYTES"], node_bytes, is_copy
        )

    def check(self, data: Any, tags: Any, nodes: Any, metas: Any) -> None:
        """Checks columns of records. Raises InvalidRequest or RecordTooLarge."""
        for what, column, most in (("tag", tags, self.tag_bytes), ("node", nodes, self.node_bytes)):
            if longest(column) > most or pc.any(pc.match_substring(column, "\0")).as_py():
                for value in column.drop_null().to_pylist():
                    check_token(what, value, most)
        for meta in metas.unique().drop_null().to_pylist():
            if meta != "null":
                check_meta(meta.encode(), self.meta_bytes, self.meta_keys, is_copy=self.is_copy)
        size = pc.max(pc.add(pc.binary_length(data), pc.fill_null(pc.binary_length(metas), 0))).as_py() or 0
        most = self.record_bytes + (STAMP_BYTES if self.is_copy else 0)
        if size > most:
            raise RecordTooLarge(f"a record has {size} bytes: expected at most {most}", max=most)


def chunks(batches: Iterable[pa.RecordBatch], bounds: Bounds) -> Iterator[Chunk]:
    """Yields the records in chunks of bounded size. Raises InvalidRequest or RecordTooLarge."""
    held: list[pa.RecordBatch] = []
    records = size = 0
    for batch in batches:
        for piece in pieces(batch):
            held.append(piece)
            records, size = records + piece.num_rows, size + piece.nbytes
            if records >= CHUNK_RECORDS or size >= CHUNK_BYTES:
                yield encoded(held, bounds)
                held, records, size = [], 0, 0
    if held:
        yield encoded(held, bounds)


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields a batch in pieces of at most the size of a chunk. A larger record is a piece of its own."""
    for start in range(0, batch.num_rows, CHUNK_RECORDS):
        yield from halves(batch.slice(start, CHUNK_RECORDS))


def halves(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows == 1 or batch.nbytes <= CHUNK_BYTES:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from halves(batch.slice(0, middle))
    yield from halves(batch.slice(middle))


def encoded(held: list[pa.RecordBatch], bounds: Bounds) -> Chunk:
    """Returns the batches as one chunk. Raises InvalidRequest or RecordTooLarge."""
    table = pa.Table.from_batches(held)
    table, left_out = without_deep(table) if bounds.is_copy else (table, ())
    data, tags, nodes, metas = (column(table, name) for name in COLUMNS)
    if data.null_count:
        raise InvalidRequest("data is null: a record's data is JSON, which has a null of its own")
    data, metas = pc.utf8_trim(data, characters=SPACE), pc.utf8_trim(metas, characters=SPACE)
    sent = data, pc.fill_null(metas, "null")
    texts = [joined(each) for each in sent]
    if any(lengths(text) != pc.binary_length(each).to_pylist() for text, each in zip(texts, sent, strict=True)):
        refuse(*sent)
    bounds.check(data, tags, nodes, metas)
    return Chunk(table.num_rows, texts[0], tokens(tags), tokens(nodes), texts[1], left_out)


def without_deep(table: pa.Table) -> tuple[pa.Table, tuple[int, ...]]:
    """Returns the records that have few enough levels for an append, and the seqs of the others."""
    places = deep(column(table, "data")) | deep(column(table, "meta"))
    if not places:
        return table, ()
    kept = [place for place in range(table.num_rows) if place not in places]
    return table.take(pa.array(kept, pa.int64())), tuple(table["seq"].take(sorted(places)).to_pylist())


def deep(texts: Any) -> set[int]:
    """Returns the places of the JSON texts that have too many levels. Hardly any text is long and has so many brackets."""
    places = pc.indices_nonzero(pc.greater(pc.binary_length(texts), SHALLOW_BYTES))
    longer = texts.take(places)
    opening = pc.add(pc.count_substring(longer, "["), pc.count_substring(longer, "{"))
    places = places.filter(pc.greater(opening, MOST_DEPTH)).to_pylist()
    return {place for place in places if depth(texts[place].as_py().encode()) > MOST_DEPTH}


def column(table: pa.Table, name: str) -> Any:
    """Returns a column as one array of strings. A missing column is all null."""
    if name not in table.column_names:
        return pa.nulls(table.num_rows, pa.string())
    return table[name].cast(pa.string()).combine_chunks()


def joined(texts: Any) -> str:
    """Returns JSON texts as a JSON array."""
    lists = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return f"[{pc.binary_join(lists, ',')[0].as_py()}]"


def tokens(column: Any) -> str:
    """Returns strings as a JSON array."""
    return msgspec.json.encode(column.to_pylist()).decode()


def lengths(array: str) -> list[int]:
    """Returns the sizes of the values of a JSON array in bytes, or [] if it is no JSON.

    If the texts `1,2` and `3` were joined, the values would have other sizes than the texts.
    """
    try:
        return [len(value) for value in TEXTS.decode(array)]
    except (msgspec.MsgspecError, RecursionError):
        return []


def refuse(data: Any, metas: Any) -> NoReturn:
    """Raises InvalidRequest for the first record that is no JSON."""
    for one, meta in zip(data.to_pylist(), metas.to_pylist(), strict=True):
        try:
            for text in (one, meta):
                TEXT.decode(text)
        except msgspec.MsgspecError as error:
            raise InvalidRequest(f"{one[:80]!r} with meta {meta!r} is no JSON: {error}") from error
        except RecursionError:
            break
    raise too_deep("the JSON of a record")


def longest(column: Any) -> int:
    return pc.max(pc.binary_length(column)).as_py() or 0
