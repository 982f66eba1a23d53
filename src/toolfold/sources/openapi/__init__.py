"""OpenAPI documents as tools: one tool for each operation."""
