"""A write with a `writeId` that is repeated, perhaps with other partitions.

The topic knows which partitions of a batch it has (written.py). Partitions of the same number in two runs have the same records
only if Spark divides the data in the same way. So the end of a write is noted, and a repeat of a finished write writes nothing. A
repeat of an unfinished one writes a new partition only after a known one has turned out to have as many records, unless the
caller says that its partitions are stable: each record that is still there is in the partition of before.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import psycopg

from base.errors import InvalidRequest, NotReady
from pipeline.database import Database

# Runs once for each write, at its start, so it may read the whole table.
EARLIER = "SELECT topic, partition, batch, records FROM pipeline_earlier(%s, %s)"
MARK = "SELECT pipeline_mark(%s, %s, %s, %s)"
IS_SAME = "SELECT EXISTS (SELECT FROM pipeline_earlier(%s, 0))"
OF_WRITE = -1  # the partition of a note about a whole write
WAIT_SECONDS, LOOK_SECONDS = 60.0, 0.2  # for a known partition, which another task compares


class Repeat(NamedTuple):
    """The result of earlier runs of a batch. `is_done`: they finished it. `known`: their records by topic and partition.

    `note`: the writer under which the tasks of this run note that the partitions are the same. `is_stable`: nothing is compared.
    """

    writer: str
    batch: int
    is_done: bool
    known: Mapping[tuple[str, int], int]
    note: str
    is_stable: bool

    def check(self, connection: psycopg.Connection[Any], partition: int, records: Mapping[str, int]) -> None:
        """Returns if this partition may be appended. `records`: their numbers by topic.

        Raises InvalidRequest if the earlier run had other partitions, or NotReady if no known partition was compared in time.
        """
        if self.is_stable or not self.known:
            return
        earlier = {topic: number for (topic, other), number in self.known.items() if other == partition}
        if earlier:
            for topic, number in earlier.items():
                if records.get(topic) != number:
                    raise InvalidRequest(
                        f"an unfinished run of this writeId appended {number} records of partition {partition} to {topic}, and"
                        f" this run has {records.get(topic, 0)}: repeat it with the same partitions, or use another writeId"
                    )
            connection.execute(MARK, [list(earlier), self.note, self.batch, 0])
        elif records:
            self.wait(connection)

    def wait(self, connection: psycopg.Connection[Any]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while connection.execute(IS_SAME, [self.note]).fetchone() != (True,):
            if time.monotonic() > deadline:
                known = ", ".join(sorted({str(partition) for _, partition in self.known}))
                raise NotReady(
                    f"an unfinished run of this writeId appended the partitions {known}, and this run has not compared one of"
                    " them: repeat it with the same partitions and with as many cores, or use another writeId"
                )
            time.sleep(LOOK_SECONDS)

    def finish(self, database: Database, topics: Collection[str], partitions: int) -> None:
        """Notes that the write has finished."""
        with database.connect() as connection:
            connection.execute(
                MARK, [sorted({*topics, *(topic for topic, _ in self.known)}), self.writer, self.batch, partitions]
            )


def look(database: Database, writer: str, batch: int, prefix: str, is_stable: bool) -> Repeat:
    """Returns what earlier runs of a batch did. `prefix`: of the names of notes that may be deleted later."""
    with database.connect() as connection:
        rows = connection.execute(EARLIER, [writer, batch]).fetchall()
    is_done = any(partition == OF_WRITE or other > batch for _, partition, other, _ in rows)
    known = {(topic, partition): records for topic, partition, _, records in rows if partition != OF_WRITE}
    return Repeat(writer, batch, is_done, known, f"{prefix}{uuid.uuid4()}", is_stable)
