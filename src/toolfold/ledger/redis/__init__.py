"""Ledger on a Redis or Valkey server, shared by replicas."""
