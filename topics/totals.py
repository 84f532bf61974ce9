"""Statements on all topics together. Spark's Python workers import this file, so it imports no Django."""

BYTES = "SELECT coalesce(sum(bytes), 0)::bigint FROM topics_topichead"
# The number of topics, and whether a topic has a name.
TOPICS = "SELECT count(*), EXISTS (SELECT FROM topics_topic WHERE name = %s) FROM topics_topic"
