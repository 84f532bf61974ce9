"""Statements on all topics together."""

TOTALS = "SELECT topics, records, bytes FROM topic_totals()"
BYTES = "SELECT bytes FROM topic_totals()"
# The number of topics, and whether a topic has a name.
TOPICS = "SELECT topics, EXISTS (SELECT FROM topics_topic WHERE name = %s) FROM topic_totals()"
