"""The data pipeline on Spark (docs/pipeline.md). The server runs without PySpark and Java."""
