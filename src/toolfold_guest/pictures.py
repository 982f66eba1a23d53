"""Figures and images as pictures, for those programs that have any. Imports none of the libraries it knows."""

import io
import sys
from typing import Any

from toolfold_guest.media import Media


def picture_of(value: Any) -> Media | None:
    """A figure, anything drawn on one, or an image; `None` for anything else."""
    module = type(value).__module__.partition(".")[0]
    if module == "PIL" and hasattr(value, "save"):
        return _png(lambda file: value.save(file, "PNG"))
    if module == "IPython" or not any(one.partition(".")[0] == "matplotlib" for one in _modules_of(value)):
        return None
    figure = figure_of(value)
    return None if figure is None else of_figure(figure)


def figure_of(value: Any) -> Any:
    """The figure that something of matplotlib's is drawn on."""
    if hasattr(value, "savefig"):
        return value
    get = getattr(value, "get_figure", None)
    figure = get() if callable(get) else getattr(value, "figure", None)
    return figure if hasattr(figure, "savefig") else None


def of_figure(figure: Any) -> Media | None:
    """A figure as PNG."""
    return _png(lambda file: figure.savefig(file, format="png"))


def open_figures() -> list[Any]:
    """Those that `pyplot` still holds, in the order in which they were made."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return [] if pyplot is None else [pyplot.figure(number) for number in pyplot.get_fignums()]


def _modules_of(value: Any) -> list[str]:
    return [kind.__module__ for kind in type(value).__mro__]


def _png(save: Any) -> Media | None:
    file = io.BytesIO()
    try:
        save(file)
    except Exception:  # noqa: BLE001  # a figure that cannot be drawn is no picture; its text is still its value
        return None
    return Media("image", "image/png", file.getvalue())
