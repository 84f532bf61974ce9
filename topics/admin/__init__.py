"""The Django admin of the log: topics, API keys, cursors and the audit log. The pages call the functions of the API.

The hot tables (TopicHead, Record, Span) and idempotency keys have no pages, because nobody edits them by hand.
"""

from django.contrib import admin

from topics.admin import audit, cursors, keys, topics

__all__ = ["audit", "cursors", "keys", "topics"]

admin.site.site_header = admin.site.site_title = "topics"
admin.site.index_title = "Operations"
admin.site.site_url = "/v0/docs"
admin.site.enable_nav_sidebar = False  # the columns need its width
