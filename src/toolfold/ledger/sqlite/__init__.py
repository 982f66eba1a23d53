"""Ledger in one SQLite file, the default."""
