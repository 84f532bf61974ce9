"""Table of contents of /v0/topics, and of what tells of the server."""

from django.urls import path

from topics.api import cursors, health, records, topics
from watch import api as watch
from watch import eventstream
from wire import docs

urlpatterns = [
    path("topics", topics.TopicList.as_view()),
    path("topics/<str:topic>", topics.OneTopic.as_view()),
    path("topics/<str:topic>/diff", records.TopicDiff.as_view()),
    path("topics/<str:topic>/delete", records.DeleteRecords.as_view()),
    path("topics/<str:topic>/records", records.TopicRecords.as_view()),
    path("topics/<str:topic>/records/<str:seq>", records.OneRecord.as_view()),
    path("topics/<str:topic>/cursors", cursors.CursorList.as_view()),
    path("topics/<str:topic>/cursors/<str:cursor>", cursors.OneCursor.as_view()),
    path("topics/<str:topic>/events", eventstream.events),
    path("watch", watch.Sessions.as_view()),
    path("health", health.Health.as_view()),
    path("ready", health.Ready.as_view()),
    path("metrics", health.Metrics.as_view()),
    path("schema", docs.Schema.as_view()),
    path("docs", docs.Docs.as_view()),
]
