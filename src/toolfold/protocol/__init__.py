"""The host's half of the conversation with a guest. Parses hostile bytes; does no I/O."""
