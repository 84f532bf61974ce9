"""Appends: plain ones, the first of a topic, those under conditions and copies, with the statements that they share."""
