"""Runs of jobs: when a job runs, one at a time for each target, from the position where the last run ended."""
