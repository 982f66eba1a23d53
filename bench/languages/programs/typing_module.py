from typing import Any, Callable, Literal, Union, cast

Kind = Literal["a", "b"]
Handler = Callable[[int], int]

def use(handler: Handler, kind: Kind = "a") -> Union[int, str]:
    return handler(2) if kind == "a" else kind

[use(lambda n: n * 3), cast(Any, 5)]

# topic: modules
# expect value: [6, 5]
