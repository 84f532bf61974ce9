"""Samples of each minute, their series, and charts."""
