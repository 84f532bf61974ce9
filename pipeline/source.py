"""The data source `topics`: spark.read.format("topics"), spark.readStream.format("topics"), and both ways to write.

`pipeline.session.session()` makes a session with the source. In a session of your own, register the source with
`pipeline.session.register(spark)`, or with `spark.dataSource.register(Topics)`. The import of this module sets PYSPARK_PYTHON and
JAVA_HOME, if nobody did, for a Spark that starts later.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from base.errors import InvalidRequest
from pipeline.read.columns import SCHEMA, chosen_columns
from pipeline.spark.java import use_this_machine

use_this_machine()


class Topics(DataSource):
    """Reads one topic, or all topics with a prefix. Appends to one topic, or to the topics that a column names."""

    @classmethod
    def name(cls) -> str:
        return "topics"

    def schema(self) -> StructType:
        """Returns the columns of the option `columns`, by default all. Raises InvalidRequest for an unknown column."""
        wanted = [name.strip() for name in self.options.get("columns", "").split(",") if name.strip()]
        known = SCHEMA.fieldNames()
        if unknown := set(wanted) - set(known):
            raise InvalidRequest(f"no column is called {', '.join(sorted(unknown))}: there are {', '.join(known)}")
        return StructType([SCHEMA[name] for name in wanted]) if wanted else SCHEMA

    # For the schema of each read, Spark starts a new process, which imports this module. The imports of readers and writers take
    # longer than a small query, so only the processes that read or write have them.

    def reader(self, schema: StructType) -> DataSourceReader:
        from pipeline.read.batch import batch_reader

        return batch_reader(self.options, chosen_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pipeline.read.stream import stream_reader

        return stream_reader(self.options, chosen_columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pipeline.write.sink import batch_writer

        if overwrite:
            raise InvalidRequest("a topic is appended to: use mode('append')")
        return batch_writer(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from pipeline.write.sink import stream_writer

        if overwrite:
            raise InvalidRequest("a topic is appended to: use outputMode('append')")
        return stream_writer(self.options, schema)
