"""What is noted of each request: a line in the log, a span of OpenTelemetry."""
