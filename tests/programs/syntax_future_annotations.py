from __future__ import annotations


def same(value: Undefined) -> Undefined:
    return value


same(3)

# expect value: 3
