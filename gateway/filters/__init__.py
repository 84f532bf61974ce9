"""The built-in filters of the gateway, one per file (docs/gateway.md)."""
