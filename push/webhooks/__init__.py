"""Webhooks on any topic: signed calls with records, with retries and a log (docs/webhooks.md).

An engine (engine.py) takes webhooks under leases. A serving (serving.py) reads the records of its topics, calls the URL, and
settles the outcomes. Everything it knows is in PostgreSQL: the positions are cursors of the topics, and records that wait for
another attempt are rows of push_webhookwaiting.
"""
