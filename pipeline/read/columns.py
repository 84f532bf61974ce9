"""The columns of the data source `topics`, as Arrow and as Spark know them."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from base.errors import InvalidRequest

ARROW = {
    "topic": pa.string(),
    "seq": pa.int64(),
    "ts": pa.int64(),
    "node": pa.string(),
    "tag": pa.string(),
    "meta": pa.string(),
    "data": pa.string(),
    "home_topic": pa.string(),
    "home_topic_id": pa.int64(),
    "home_seq": pa.int64(),
    "hops": pa.int32(),
    "ts_time": pa.timestamp("us", tz="UTC"),
}
SPARK = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    ARROW["ts_time"]: TimestampType(),
}
SCHEMA = StructType([StructField(name, SPARK[kind]) for name, kind in ARROW.items()])


def chosen_columns(schema: StructType) -> tuple[str, ...]:
    """Returns the names of the wanted columns. Raises InvalidRequest for an unknown column, or a column of another type."""
    for wanted in schema.fields:
        if wanted.name not in ARROW or SCHEMA[wanted.name].dataType != wanted.dataType:
            told = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in SCHEMA.fields)
            raise InvalidRequest(
                f"no column is called {wanted.name} {wanted.dataType.simpleString()}: there are {told}"
            )
    return tuple(schema.fieldNames())
