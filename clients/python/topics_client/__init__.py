"""The Python client of topics. See README.md beside this package."""

from topics_client.batch import AsyncBatch, Batch, QueueFull
from topics_client.client import AsyncTopics, Topics
from topics_client.errors import InvalidAnswer, RecordsLost, Refused, TopicsError, Unreachable
from topics_client.group import AsyncGroup, Group
from topics_client.jobs import Retry
from topics_client.records import Appended, Cursor, Job, New, Record, Streamed, Tombstone, Window
from topics_client.topic import AsyncTopic, Topic
from topics_client.webhooks import AsyncWebhook, InvalidSignature, Webhook
from topics_client.worker import AsyncWorker, Worker

__all__ = [
    "Appended",
    "AsyncBatch",
    "AsyncGroup",
    "AsyncTopic",
    "AsyncTopics",
    "AsyncWebhook",
    "AsyncWorker",
    "Batch",
    "Cursor",
    "Group",
    "InvalidAnswer",
    "InvalidSignature",
    "Job",
    "New",
    "QueueFull",
    "Record",
    "RecordsLost",
    "Refused",
    "Retry",
    "Streamed",
    "Tombstone",
    "Topic",
    "Topics",
    "TopicsError",
    "Unreachable",
    "Webhook",
    "Window",
    "Worker",
]
__version__ = "0.1.0"
