"""Reads topics into Spark: ranges of seqs that Python workers scan, in batches and in streams."""
