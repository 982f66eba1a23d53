"""Libraries for the network that are not installed here: importable, and a call that needs the network says so.

Many programs only import such a library, expect it to fail, or put a mock in its place. Attributes are placeholders:
classes can be made and subclassed, errors caught and raised, and any other call raises as the library does offline.
Loaded by the first import that nothing else answers, so other programs pay nothing.
"""

import http
import importlib.abc
import importlib.machinery
import json
import types
import urllib.parse
from typing import Any

from toolfold_guest.shared.reserved_names import LIBRARIES, MODULES, NETWORK, library_of, message

_ASYNC = frozenset({"aiohttp", "asyncpg", "websockets"})
_MAKERS = frozenset({"client", "from_url", "resource", "session"})
"""Functions that make an object, as a class does."""
_HARMLESS = frozenset({"aclose", "close", "configure", "load_system_host_keys", "mount", "quit", "shutdown", "update"})
_HARMLESS_STARTS = ("add_", "disable_", "enable_", "set_")
_DICTS = frozenset({"adapters", "cookies", "headers", "hooks", "params", "proxies"})
_OF_URLLIB = frozenset({"quote", "quote_plus", "unquote", "urlencode", "urljoin", "urlparse", "urlsplit", "urlunparse"})
_ERRORS = ("Error", "Exception", "Failure", "Timeout", "TooManyRedirects", "error")
_OF_CLASSES = (
    "close", "content", "cookies", "delete", "get", "head", "headers", "json", "mount", "ok", "options", "patch",
    "post", "put", "raise_for_status", "reason", "request", "send", "status", "status_code", "text", "url",
)  # fmt: skip
"""What a mock made after a class of these may have."""

_classes: dict[tuple[str, str], type] = {}


class Loader(importlib.abc.Loader):
    """Makes a module of a library, whatever it is called."""

    def exec_module(self, module: types.ModuleType) -> None:
        path, names = module.__name__, vars(module)
        if library_of(path) is None:
            # A package around them, such as `google`.
            return

        def member(name: str) -> Any:
            if name == "__version__":
                return "0"
            if name.startswith("__"):
                raise AttributeError(f"module {path!r} has no attribute {name!r}")
            return names.setdefault(name, _member(f"{path}.{name}"))

        names["__getattr__"] = member


def spec_of(name: str) -> importlib.machinery.ModuleSpec | None:
    """How to make a module, if it belongs to one of the libraries."""
    if library_of(name) is None and name not in MODULES:
        return None
    return importlib.machinery.ModuleSpec(name, Loader(), is_package=True)


def _member(path: str) -> Any:
    """What a program finds at `requests.get`, or at `requests.Session.get` of an object."""
    name = path.rpartition(".")[2]
    if name in _OF_URLLIB:
        return getattr(urllib.parse, name)
    if name == "codes":
        return _Codes()
    if name.endswith(_ERRORS) or name.endswith("Warning"):
        return _error(path)
    return _class(path) if name[0].isupper() else _Member(path)


def _class(path: str) -> type:
    library, name = library_of(path) or "", path.rpartition(".")[2]
    placeholder = _classes.get((library, name))
    if placeholder is None:
        base = _Response if name == "Response" else _Object
        placeholder = _classes[library, name] = _Class(name, (base,), {"__module__": library, "_path": path})
    return placeholder


def _error(path: str) -> type[Any]:
    """One of the library's errors; all of them are its base error, too."""
    library, name = _home_of_errors(path), path.rpartition(".")[2]
    chain = LIBRARIES[library].errors.split()
    if (library, chain[0]) not in _classes:
        base: type = _Error
        for error_name in chain:
            base = _classes[library, error_name] = type(error_name, (base,), {"__module__": library})
    if (library, name) not in _classes:
        base = Warning if name.endswith("Warning") else _classes[library, chain[0]]
        _classes[library, name] = type(name, (base,), {"__module__": library})
    return _classes[library, name]


def _refusal(path: str) -> Any:
    library = _home_of_errors(path)
    return _error(f"{library}.{LIBRARIES[library].errors.split()[-1]}")(message(path, NETWORK))


def _home_of_errors(path: str) -> str:
    library = library_of(path) or ""
    return LIBRARIES[library].of or library


def _is_async(path: str) -> bool:
    return library_of(path) in _ASYNC or any(part.startswith("Async") for part in path.split("."))


class _Error(OSError):
    """What the errors of all libraries have: any arguments, of which those with names become attributes."""

    request = response = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args)
        self.__dict__.update(kwargs)

    def __str__(self) -> str:
        return " ".join(map(str, self.args))


class _Member:
    """A function, or a group of them, such as `openai.chat`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.__name__ = path.rpartition(".")[2]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _member(f"{self._path}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.__name__ in _MAKERS:
            return _Class(self.__name__, (_Object,), {"_path": self._path})()
        is_harmless = self.__name__ in _HARMLESS or self.__name__.startswith(_HARMLESS_STARTS)
        if _is_async(self._path):
            return _Awaited(None if is_harmless else self._path)
        if not is_harmless:
            raise _refusal(self._path)
        return None

    def __bool__(self) -> bool:
        return True

    def _refuse(self, *_: Any) -> Any:
        raise _refusal(self._path)

    __iter__ = __len__ = __getitem__ = __contains__ = __enter__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __float__ = __int__ = _refuse

    def __exit__(self, *_: object) -> None:
        return


class _Awaited:
    """A call of an asynchronous library: it fails when it is awaited, so that others beside it go on."""

    def __init__(self, path: str | None) -> None:
        self._path = path

    def __await__(self) -> Any:
        if self._path is not None:
            raise _refusal(self._path)
        return iter(())

    async def __aenter__(self) -> Any:
        return await self

    async def __aexit__(self, *_: object) -> None:
        return


class _Class(type):
    """The type of classes whose methods are placeholders."""

    _path: str

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _member(f"{cls._path}.{name}")

    def __dir__(cls) -> list[str]:
        return [*super().__dir__(), *_OF_CLASSES]


class _Object:
    """What a class of these makes: it can be set up, and fails when it is used."""

    _path = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        return

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _DICTS:
            return self.__dict__.setdefault(name, {})
        return _member(f"{self._path}.{name}")

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        return


class _Response(_Object):
    """A reply that a test makes by hand, as `requests.Response`."""

    status_code: int | None = None
    _content: bytes | None = None
    encoding = "utf-8"

    @property
    def content(self) -> bytes:
        return self._content or b""

    @property
    def text(self) -> str:
        return self.content.decode(self.encoding, "replace")

    @property
    def ok(self) -> bool:
        return (self.status_code or 0) < http.HTTPStatus.BAD_REQUEST

    def json(self, **options: Any) -> Any:
        return json.loads(self.text, **options)

    def raise_for_status(self) -> None:
        if not self.ok:
            raise _error(f"{library_of(self._path)}.HTTPError")(f"{self.status_code} Error", response=self)


class _Codes:
    """`requests.codes.not_found`, `httpx.codes.NOT_FOUND`."""

    def __getattr__(self, name: str) -> int:
        try:
            return int(http.HTTPStatus[name.upper()])
        except KeyError:
            raise AttributeError(name) from None
