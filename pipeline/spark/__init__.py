"""The processes of Spark: Python and Java for them, and what only classic Spark has."""
