"""The data source `topics`: spark.read.format("topics"), spark.readStream.format("topics"), and both ways to write.

An analyst's notebook registers it by `spark.dataSource.register(Topics)`; the sessions of jobs have it.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from base.errors import InvalidRequest
from pipeline.options import Options
from pipeline.sink import BATCH_OPTIONS, OPTIONS, BatchWriter, StreamWriter


class Topics(DataSource):
    """Records of a topic, or of all whose names begin so; and a sink that appends to one."""

    @classmethod
    def name(cls) -> str:
        return "topics"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise InvalidRequest("a topic is appended to: use mode('append')")
        return BatchWriter(Options(self.options, BATCH_OPTIONS), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        if overwrite:
            raise InvalidRequest("a topic is appended to: use outputMode('append')")
        return StreamWriter(Options(self.options, OPTIONS), schema)
