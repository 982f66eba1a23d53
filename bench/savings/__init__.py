"""What programs save against direct tool calling, without a model: see `__main__.py`."""
