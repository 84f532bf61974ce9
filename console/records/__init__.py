"""The record browser: its queries, pages, downloads and forms."""
