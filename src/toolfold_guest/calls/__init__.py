"""Tool calls of a program: messages, channel and pending calls."""
