"""One WebSocket for streams, appends, jobs and consumer groups (docs/websocket.md)."""
