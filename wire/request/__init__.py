"""Reads a request: its Accept header, its body within limits of size and time, and the struct in the body or the query."""
