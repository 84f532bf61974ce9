"""The commands, each a function with its arguments and output."""
