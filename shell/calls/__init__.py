"""A command a function: what it takes, and what it prints."""
