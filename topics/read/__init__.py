"""Reads: records by seq, one record with its lineage, topics as they are now, and statements for jobs on ranges of seqs."""
