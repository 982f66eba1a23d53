"""Evaluation of a model with tools: tasks with checks, asked directly, as programs, or with both offered."""
