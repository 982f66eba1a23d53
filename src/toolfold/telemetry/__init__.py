"""Telemetry: the standard log and OpenTelemetry."""
