"""One WebSocket for streams, appends and jobs (docs/websocket.md)."""
