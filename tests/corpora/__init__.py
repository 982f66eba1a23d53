"""Public programs in plain CPython and here: the same output and the same ending, or a row that says why not."""
