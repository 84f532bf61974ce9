"""The routers that come with the gateway, one a file (docs/gateway.md)."""
