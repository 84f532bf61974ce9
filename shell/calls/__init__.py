"""The commands, one function each: its arguments, and its output."""
