"""No node is ever drained."""

state = None
