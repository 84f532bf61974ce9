"""Mirrors: topics of one name on several servers that get the records of each other (docs/wire.md).

Such a topic is a *site*. A mirror reads the topic of one site, and hands the records over to another site. The other site stores
the position of the mirror together with the records.
"""
