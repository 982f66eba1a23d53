"""Tool objects for gem's agent and RL environments, whose programs call the environment's other tools.

Nothing here needs gem itself; the tool objects have what gem's `ToolEnvWrapper` and the
environments built on it ask of a tool.
"""
