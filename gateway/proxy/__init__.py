"""The way of a request through the gateway and back: calls, connections to servers, streams, and bytes passed on unparsed."""
