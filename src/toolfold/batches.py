"""Batch types: the items that `Runtime.map` takes, and the results that it yields.

```python
async for one in runtime.map(Item(text=text, tag=name) for name, text in programs):
    print(one.tag, one.outcome.status)
```
"""

from toolfold.execution.batch import Item, Mapped

__all__ = ["Item", "Mapped"]
