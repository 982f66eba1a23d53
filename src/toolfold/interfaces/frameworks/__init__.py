"""A runtime as one tool of other frameworks: definitions in their shapes, their tool calls answered."""
