"""Rules and tables that the host and the guest share."""
