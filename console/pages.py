"""The console's pages: where each is, what draws it, and who may see it."""

from __future__ import annotations

from console import graph, limits, live_page, router, topic, work

# Route, view (of the site and the request), permission, name.
PAGES = (
    ("topic/<str:name>/", topic.page, "topics.view_topic", "console_topic"),
    ("topic/<str:name>/records/", topic.records, "topics.view_topic", "console_records"),
    ("topic/<str:name>/records/<int:seq>/", topic.record, "topics.view_topic", "console_record"),
    ("topic/<str:name>/append/", topic.append, "console.append_record", "console_append"),
    ("router/<str:name>/", router.page, "routers.view_router", "console_router"),
    ("router/<str:name>/pause/", router.pause, "routers.change_router", "console_pause"),
    ("router/<str:name>/move/", router.move, "console.move_router", "console_move"),
    ("graph/", graph.page, "routers.view_router", "console_graph"),
    ("live/", live_page.page, "topics.view_topic", "console_live"),
    ("limits/", limits.page, "topics.view_topic", "console_limits"),
    ("jobs/", work.page, "console.view_task", "console_jobs"),
    ("complete/", topic.complete, "topics.view_topic", "console_complete"),
)
