"""Rewrites requests and answers between a client and its servers: names of topics, seqs, identifiers, and frames of streams."""
