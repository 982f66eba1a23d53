"""Notebook helpers: `display`, `IPython.display`, figures that show themselves, names without import.

Costs a program that has none of them one look at a set of names and one at a dict of modules.
"""

import datetime
import functools
import importlib.abc
import importlib.machinery
import os
import sys
import types
import typing
from collections.abc import Sequence
from typing import Any, NoReturn

from toolfold_guest.program.value_encoder import Media, figure_of, of_figure, open_figures, picture_of
from toolfold_guest.shared.reserved_names import MODULES as NETWORK_MODULES

_pictures: list[Media] = []
_last_shown: list[Any] = []
"""The figure that was current when the last one was shown, which `pyplot` no longer has."""
_SAVED = "_toolfold_saved"


def prepare() -> None:
    """In the zygote: what programs may import, and how figures show themselves."""
    sys.meta_path.append(_Finder())
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        _change_pyplot(pyplot)
        _change_savefig(sys.modules["matplotlib.figure"].Figure)


def _change_pyplot(pyplot: Any) -> None:
    """Figures show themselves; a backend that needs a screen is Agg."""
    switch = pyplot.switch_backend

    def switch_backend(newbackend: str) -> None:
        try:
            switch(newbackend)
        except (ImportError, RuntimeError):  # the latter of WebAgg, which needs another package
            switch("agg")

    pyplot.show, pyplot.switch_backend = show, functools.update_wrapper(switch_backend, switch)


def _change_savefig(figure_type: Any) -> None:
    """A figure that the program saved is a file already, and no picture that it forgot; one that was shown is there."""
    save = figure_type.savefig

    def savefig(self: Any, fname: Any, **kwargs: Any) -> Any:
        # Only what lies in the data folder is handed over.
        if isinstance(fname, str | os.PathLike) and os.path.abspath(fname).startswith(os.getcwd()):
            setattr(self, _SAVED, True)
        # `plt.savefig` after `plt.show` means what was shown, not the empty figure that is current then.
        figure = _last_shown[0] if _last_shown and _is_empty(self) else self
        return save(figure, fname, **kwargs)

    figure_type.savefig = functools.update_wrapper(savefig, save)


def _is_empty(figure: Any) -> bool:
    return len(figure.get_children()) <= 1  # the background


def ready(name: str) -> Any:
    own = {"describe_files": describe_files, "display": display, "final_answer": final_answer}
    return own.get(name) or getattr(typing, name)


class Returned(BaseException):
    """Carries the value of a top-level `return` past the program's own handlers."""

    __module__ = "builtins"

    def __init__(self, value: Any = None) -> None:
        self.value = value


def describe_files(*names: str) -> Any:
    """Columns and types, sheets, tables and rows of the data files here; of all of them, or of those that fit `names`.

    Reads csv, tsv, json, jsonl, xlsx, parquet and sqlite. Print it for one line per file.
    """
    # Here: hardly any program asks, and it takes ten milliseconds to import.
    from toolfold_guest.describe import describe_files as describe  # noqa: PLC0415

    return describe(*names)


def final_answer(answer: Any = None, *_: Any) -> NoReturn:
    """The value of the program and its end, as agents that write code are taught to say it."""
    raise Returned(answer)


def show(*_: Any, **__: Any) -> None:
    """`plt.show()`: the open figures are shown, and gone, as when their windows are closed."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None and pyplot.get_fignums():
        current = pyplot.gcf()
        figures = [figure for figure in open_figures() if not _is_empty(figure)]
        _pictures.extend(picture for picture in map(of_figure, figures) if picture is not None)
        if figures:
            _last_shown[:] = [figures[-1] if _is_empty(current) else current]
        pyplot.close("all")


def display(*objects: Any, **_: Any) -> None:
    for item in objects:
        picture = item if isinstance(item, Media) else picture_of(item)
        if picture is None:
            print(item)  # noqa: T201  # to print is what it is for
        else:
            _pictures.append(picture)
            figure = figure_of(item)
            if figure in open_figures():
                _last_shown[:] = [figure]
                sys.modules["matplotlib.pyplot"].close(figure)


def with_pictures(value: Any) -> Any:
    """The program's value; its pictures are the value if there is no other, else files."""
    if not _pictures and "matplotlib.pyplot" not in sys.modules:
        return value
    value_figures = _drawn_on(value)
    figures = [
        figure
        for figure in open_figures()
        if figure in value_figures or not (getattr(figure, _SAVED, False) or _is_empty(figure))
    ]
    figures += [figure for figure in value_figures if figure not in figures]
    pictures = [*_pictures, *filter(None, map(of_figure, figures))]
    _pictures.clear()
    if not pictures:
        return value
    if value is None or value_figures:
        return pictures[0] if len(pictures) == 1 else pictures
    for number, picture in enumerate(pictures, 1):
        with open(f"figure_{number}.png", "wb") as file:
            file.write(picture.data)
    return value


def _drawn_on(value: Any) -> list[Any]:
    """The figures of what a plotting function gave back: a title, axes, lines, bars and their edges."""
    items = list(value) if isinstance(value, list | tuple) else [value]
    for bars in [item for item in items if isinstance(item, tuple)]:
        items.extend(bars)
    figures = [figure_of(item) for item in items if _is_of_matplotlib(item)]
    return [figure for at, figure in enumerate(figures) if figure is not None and figure not in figures[:at]]


def _is_of_matplotlib(value: Any) -> bool:
    return any(kind.__module__.startswith("matplotlib") for kind in type(value).__mro__)


class LenientDatetime(types.ModuleType):
    """The module `datetime` for a program that imported neither it nor the class: `datetime.now()` works, too."""

    def __init__(self) -> None:
        super().__init__("datetime", datetime.__doc__)
        self.__dict__.update({name: value for name, value in vars(datetime).items() if not name.startswith("__")})

    def __getattr__(self, name: str) -> Any:
        return getattr(datetime.datetime, name)

    def __call__(self, *args: Any, **kwargs: Any) -> datetime.datetime:
        return datetime.datetime(*args, **kwargs)  # noqa: DTZ001  # as the program wrote it


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """What is not installed: `IPython.display`, where there is no shell, `nest_asyncio`, libraries for the network."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        is_package = fullname in ("IPython", "IPython.core")
        if not is_package and fullname not in ("IPython.display", "IPython.core.display", "nest_asyncio"):
            if fullname.partition(".")[0] not in NETWORK_MODULES:
                return None
            from toolfold_guest.stdlib import network_placeholders  # noqa: PLC0415  # of those few programs that import one

            return network_placeholders.spec_of(fullname)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=is_package)

    def exec_module(self, module: types.ModuleType) -> None:
        names = vars(module)
        if module.__name__ == "nest_asyncio":
            # A loop runs within another here anyway.
            names["apply"] = lambda *_: None
            return
        names.update({"display": display, "get_ipython": lambda: None, "__version__": "8.0.0"})
        names["version_info"] = (8, 0, 0)
        names["clear_output"] = lambda *_, **__: None
        names.update(
            {name: type(name, (_RichText,), {}) for name in ("HTML", "Markdown", "Latex", "Math", "JSON", "SVG")}
        )
        names["Image"] = _image


class _RichText:
    """Text that a notebook would render."""

    def __init__(self, data: Any = None, *_: Any, **__: Any) -> None:
        self.data = data

    def __repr__(self) -> str:
        return str(self.data)


def _image(data: Any = None, filename: str | None = None, **_: Any) -> Any:
    if isinstance(data, str):
        data, filename = None, data
    if data is None and filename is not None:
        with open(filename, "rb") as file:
            data = file.read()
    mime = "image/jpeg" if bytes(data or b"").startswith(b"\xff\xd8") else "image/png"
    return Media("image", mime, bytes(data or b""), name=os.path.basename(filename or ""))
