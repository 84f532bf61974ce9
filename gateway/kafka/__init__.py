"""A Kafka cluster as an upstream of the gateway: this process answers the calls of `/v0` with topics of Kafka (docs/kafka.md).

A topic of ours is a topic of Kafka with one partition, and `seq` is the offset + 1.

    serve.py       the table of calls, and the way of an answer
    shapes.py      bodies and queries, and what Kafka cannot do
    messages.py    records as messages, and messages as records
    version.py     the clients and all that holds them, until a file of the cluster changes
    client.py      the clients of librdkafka, the threads of their blocking calls, and their errors
    lanes.py       batches of appends
    keyed.py       appends with idempotency keys
    readers.py     messages of a topic from an offset on
    topics.py      the topics and their config
    listing.py     pages of lists, and the schema
    pages.py       diff and records
    tails.py       the newest messages of topics that somebody follows
    following.py   one reader that follows a topic
    streams.py     the events of a watch, and of one topic
    cursors.py     named cursors as committed offsets

librdkafka's calls block, so none of them runs in the event loop.
"""
