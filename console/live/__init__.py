"""Parts of pages that are sent again when they change, and the stream of new records."""
