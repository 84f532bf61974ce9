"""Heartbeats of processes, problems of this moment, and signals, which store problems."""
