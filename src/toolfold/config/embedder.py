"""`tools.embedder` as a function from texts to vectors."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from toolfold.errors import UsageError, install_extra

if TYPE_CHECKING:
    from toolfold.config.model import Config
    from toolfold.tools.embedding import Embedder

_FASTEMBED: Final = "fastembed"


def embedder_of(config: Config) -> Embedder | None:
    """What the file names, or `None`.

    Raises:
        UsageError: there is no such package, module or function; with its line.
    """
    named = config.tools.embedder
    if named is None:
        return None
    source, _, rest = named.rpartition(":") if ":" in named else (named, "", "")
    try:
        if named.partition(":")[0] == _FASTEMBED:
            return _fastembed(named.partition(":")[2])
        return _function(source, rest, config.folder)
    except UsageError as error:
        raise UsageError(f"{config.place('tools', 'embedder')}: {error}") from error


def _fastembed(model: str) -> Embedder:
    """With the package's usual model unless one is named; loaded by the first search."""
    if importlib.util.find_spec(_FASTEMBED) is None:
        raise UsageError(f"'fastembed' is not installed; {install_extra('fastembed')}")

    # Any: the package is an extra, and not installed where this is checked.
    @cache
    def loaded() -> Any:
        return importlib.import_module(_FASTEMBED).TextEmbedding(**({"model_name": model} if model else {}))

    def embed(texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        return [vector.tolist() for vector in loaded().embed(texts)]

    return embed


def _function(source: str, name: str, folder: Path) -> Embedder:
    if not source or not name.isidentifier():
        raise UsageError(
            f"{f'{source}:{name}'.strip(':')!r} is not 'fastembed', 'fastembed:MODEL' or 'MODULE:FUNCTION'"
        )
    try:
        module = _from_file(folder / source) if source.endswith(".py") else importlib.import_module(source)
    except (ImportError, OSError) as error:
        raise UsageError(f"{source!r} cannot be imported: {error.__class__.__name__}") from error
    embed = getattr(module, name, None)
    if not callable(embed):
        raise UsageError(f"{source!r} has no function {name!r}")
    # A function of the user's; what it returns is checked when it is called.
    return embed  # type: ignore[no-any-return]


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"toolfold_embedder_{path.stem}", path)
    assert spec is not None, "a file that ends with .py has a loader"
    assert spec.loader is not None, "a file that ends with .py has a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
