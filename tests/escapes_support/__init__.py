"""Shared code of the attack corpus: what lies on the host, how an attack runs, what counts as success."""
