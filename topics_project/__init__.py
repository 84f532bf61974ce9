"""The site: where all is put together."""

# The one place of the version: the package's, what /v0/health and the admin say, and the tag of the image.
__version__ = "0.1.0"
