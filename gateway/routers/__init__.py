"""The built-in routers of the gateway, one per file (docs/gateway.md)."""
