"""The site: settings, endpoints, the web application, and the processes."""

# The only definition of the version: for the package, /v0/health, the admin, and the image's tag.
__version__ = "0.3.0"
