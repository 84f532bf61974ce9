"""The Django admin of the log, plainly: topics, API keys, cursors, the audit log. It changes what the API's functions change.

The hot tables (TopicHead, Record, Span) and idempotency keys are no pages of it: nobody edits those by hand.
"""

from django.contrib import admin

from topics.admin import audit, cursors, keys, topics

__all__ = ["audit", "cursors", "keys", "topics"]

admin.site.site_header = admin.site.site_title = "topics"
admin.site.index_title = "Operations"
admin.site.site_url = "/v0/docs"
admin.site.enable_nav_sidebar = False  # its width belongs to the columns
