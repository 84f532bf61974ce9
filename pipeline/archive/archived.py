"""Reads the records of an archive in the order of their seqs. It needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from base.refusal import Refusal
from pipeline.archive.files import Files
from pipeline.archive.segments import Segment

COLUMNS = ["seq", "data", "tag", "node", "meta"]
BATCH = 256  # records that are read at once. The largest records have 1 MiB each


def records(files: Files, group: list[Segment], after: int, upto: int | None) -> Iterator[pa.RecordBatch]:
    """Yields the group's records above seq `after` up to seq `upto`. Raises Refusal if a file is damaged."""
    for batch in in_order(files, group):
        seqs = batch.column("seq")
        start = pc.sum(pc.less_equal(seqs, after)).as_py()
        end = batch.num_rows if upto is None else pc.sum(pc.less_equal(seqs, upto)).as_py()
        yield batch.slice(start, max(end - start, 0))


def in_order(files: Files, group: list[Segment]) -> Iterator[pa.RecordBatch]:
    """Yields the group's records. Each file is sorted, and the files of a segment have separate ranges, in their order."""
    last = 0
    for path in (path for segment in group for path in segment.files):
        try:
            with files.local(path) as local, pq.ParquetFile(local, page_checksum_verification=True) as file:
                for batch in file.iter_batches(BATCH, columns=COLUMNS):
                    seqs = batch.column("seq")
                    if seqs[0].as_py() <= last or not pc.all(pc.less(seqs[:-1], seqs[1:]), min_count=0).as_py():
                        raise Refusal(
                            f"{files.url(path)} is not in the order of seqs: the file was changed after the archive run"
                        )
                    last = seqs[-1].as_py()
                    yield batch
        except (pa.ArrowException, OSError) as error:
            raise Refusal(f"{files.url(path)} cannot be read: {str(error).splitlines()[0]}") from error
