"""A living page to look at: programs that run, wait for a person, and fail."""
