"""WebAssembly engine: full CPython with its libraries in instances without system calls, on any system."""

from typing import TYPE_CHECKING

from toolfold.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolfold.engines.wasm.engine import WasmEngine

__all__ = ["WasmEngine"]

# At its first use: a worker loads nothing of the host.
__getattr__ = lazy_exports(__name__, {"WasmEngine": "toolfold.engines.wasm.engine"})
