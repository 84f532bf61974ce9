"""Notes each request, as a line in the log and as a span of OpenTelemetry."""
