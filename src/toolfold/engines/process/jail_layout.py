"""File layout of a guest: interpreter paths, visible packages, and the jail that a program runs in.

With a tree of its own a guest sees `/py`, whatever the host calls it: a virtual environment, a
system Python, one under a home directory. Without one (tiers `landlock` and `none`) it runs in place.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import toolfold_guest
from toolfold.models import MIB, OWN_SETS, InstalledSet, LibrarySet, Limits

Pair = tuple[str, str]

HOME: Final = "/py"
_VERSION: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
_SYSTEM_PREFIXES: Final = ("/usr", "/usr/local", "/")
_SYSTEM_FOLDERS: Final = ("/usr/lib", "/usr/lib64", "/usr/lib32", "/lib", "/lib64", "/lib32", "/usr/share/zoneinfo")
_PACKAGE_FOLDERS: Final = ("site-packages", "dist-packages")
_PUBLIC_FILES: Final = ("/etc/ld.so.cache", "/etc/mime.types")
"""Of the host, for the loader and for `mimetypes`, which openpyxl asks when it is imported."""
_FONTS_OF_MATPLOTLIB: Final = "/mpl-data/fonts/ttf"
_USUAL_FONTS: Final = "/usr/share/fonts/truetype/dejavu"
_SMALL_BYTES: Final = 1536 * 1024
_SMALL_FILES: Final = 100
_START: Final = "import toolfold_guest.module_copies; from toolfold_guest.zygote import main; main()"
_ENVIRONMENT: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # its own reserves a quarter of a guest's address space
    "HOME": "/tmp",
    "JOBLIB_MULTIPROCESSING": "0",  # it tries to, and warns of it on stderr
    "LC_ALL": "C.UTF-8",
    "LD_BIND_NOW": "1",  # else each guest finds the functions of the C library anew, and copies pages to note where
    "MALLOC_ARENA_MAX": "2",  # an arena reserves 64 MiB of a guest's address space per thread
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp/matplotlib",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
    "XDG_DATA_DIRS": f"{HOME}/share",  # where Pillow looks for fonts
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """All paths that a jail is built from and a zygote is started with."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    sys_path: tuple[str, ...]
    """Folders of installed packages, after the standard library."""
    binds: tuple[Pair, ...] = ()
    copies: tuple[Pair, ...] = ()
    """Put into the tree as copies: each mount of a tree costs every guest that is forked."""
    hidden: tuple[str, ...] = ()
    links: tuple[Pair, ...] = ()
    """Text and place of symbolic links."""
    readable_folders: tuple[str, ...] = ()
    """What Landlock leaves readable."""
    readable_files: tuple[str, ...] = ()
    listed_folders: tuple[str, ...] = ()
    """What it only lets be listed; in those below it, too."""
    set_paths: Mapping[str, str] = field(default_factory=dict)
    """Where guests find the installed sets, by name; on no path until a program needs one."""


def jailed(
    *, host_libraries: bool = False, sets: Sequence[InstalledSet] = (), with_copies: bool = True,
    with_commands: bool = False,
) -> Layout:  # fmt: skip
    """A tree of its own: neutral paths only; with the commands of shell programs if they are asked for."""
    sites, packages, copies = _packages(host_libraries=host_libraries, with_copies=with_copies)
    stdlib, libraries = _stdlib(), _libraries()
    home_stdlib = f"{HOME}/{sys.platlibdir}/{_VERSION}"
    # Each single file or folder, so that the tree holds nothing that is not named here.
    binds: list[Pair] = [(_interpreter(), f"{HOME}/bin/python3")]
    if sys.base_prefix in _SYSTEM_PREFIXES or _parent(stdlib) == "/usr/lib":
        binds.append((stdlib, home_stdlib))
        binds += [(path, f"{HOME}/lib/{os.path.basename(path)}") for path in libraries if _is_private(path)]
    else:
        # Such an installation keeps all its libraries together, found relative to the interpreter.
        binds.append((_parent(stdlib), f"{HOME}/{sys.platlibdir}"))
        outside = [path for path in libraries if _parent(path) != _parent(stdlib) and _is_private(path)]
        binds += [(path, f"{HOME}/bin/{os.path.basename(path)}") for path in outside]
    binds += [*packages, (_guest(), f"{HOME}/guest/toolfold_guest")]
    folders, links = _system_folders()
    binds += [(path, path) for path in [*folders, *_existing(["/etc/ld.so.cache"])]]
    set_paths = {library_set.name: f"{HOME}/libraries/{library_set.name}" for library_set in sets}
    # One mount for a whole set: each costs every fork some microseconds.
    binds += [(library_set.folder, set_paths[library_set.name]) for library_set in sets]
    links += [(fonts, path) for path in (f"{HOME}/share/fonts", _USUAL_FONTS) for fonts in _fonts([*binds, *copies])]
    if with_commands:
        from toolfold.engines.process import shell_commands  # noqa: PLC0415  # for bash programs alone

        copies += shell_commands.command_files()
        binds.append(shell_commands.PROC)
        links += shell_commands.links(f"{HOME}/bin/python3")
    # The whole environment: nothing of the host's is inherited.
    environment = {
        **_ENVIRONMENT, "LD_LIBRARY_PATH": f"{HOME}/lib:{HOME}/{sys.platlibdir}:{HOME}/bin", "PYTHONHOME": HOME,
        "PYTHONPATH": f"{HOME}/guest",
    }  # fmt: skip
    return Layout(
        arguments=_arguments(f"{HOME}/bin/python3"), environment=environment, sys_path=tuple(sites), binds=tuple(binds),
        copies=tuple(copies), hidden=(*[f"{home_stdlib}/{name}" for name in _PACKAGE_FOLDERS], *_system_packages()),
        links=tuple(links), readable_folders=("/",), set_paths=set_paths,
    )  # fmt: skip


def _packages(*, host_libraries: bool, with_copies: bool) -> tuple[list[str], list[Pair], list[Pair]]:
    """Folders of packages in the tree, what is mounted there, and what is copied."""
    if host_libraries:
        pairs = [(path, f"{HOME}/site{index or ''}") for index, path in enumerate(_sites())]
        return [target for _, target in pairs], pairs, []
    mounted: list[Pair] = []
    copied: list[Pair] = []
    for name, source in library_entries(tuple(_sites())).items():
        # A mount costs every fork some microseconds, so small packages are copied into the tree instead.
        (copied if with_copies and _is_small(source) else mounted).append((source, f"{HOME}/site/{name}"))
    return [f"{HOME}/site"] if mounted or copied else [], mounted, copied


def _fonts(pairs: Iterable[Pair]) -> list[str]:
    """The folder of fonts that matplotlib has, where guests find it, for Pillow; none or one."""
    folders = [
        (source + path, target + path)
        for source, target in pairs
        for path in (_FONTS_OF_MATPLOTLIB, "/matplotlib" + _FONTS_OF_MATPLOTLIB)
    ]
    return [target for source, target in folders if os.path.isdir(source)][:1]


def in_place(folder: str, *, host_libraries: bool = False, sets: Sequence[InstalledSet] = ()) -> Layout:
    """The host's own paths; `folder` is for what libraries write while they are loaded."""
    sites, entries = _sites(), library_entries(tuple(_sites()))
    folders, files, listed = [_stdlib(), *_system_folders()[0]], list[str](), list[str]()
    if host_libraries:
        entries = {}
        folders += sites
    else:
        sites = [f"{folder}/site"] if entries else []
        folders, files, listed = _without_packages(folders)
        folders += [path for path in entries.values() if os.path.isdir(path)]
        files += [path for path in entries.values() if not os.path.isdir(path)]
        listed += sites
    set_paths = {library_set.name: f"{folder}/libraries/{library_set.name}" for library_set in sets}
    folders += [library_set.folder for library_set in sets]
    links = [(source, f"{folder}/site/{name}") for name, source in entries.items()]
    links += [(library_set.folder, set_paths[library_set.name]) for library_set in sets]
    sources = [*sites, *entries.values(), *(library_set.folder for library_set in sets)]
    links += [(fonts, f"{folder}/share/fonts") for fonts in _fonts((path, path) for path in sources)]
    environment = {
        **_ENVIRONMENT, "HOME": folder, "MPLCONFIGDIR": f"{folder}/matplotlib", "PYTHONPATH": _parent(_guest()),
        "TMPDIR": folder, "XDG_DATA_DIRS": f"{folder}/share",
    }  # fmt: skip
    return Layout(
        arguments=_arguments(_interpreter()), environment=environment, sys_path=tuple(sites), links=tuple(links),
        readable_folders=tuple(dict.fromkeys([*folders, _guest()])),
        readable_files=tuple(_existing([*_PUBLIC_FILES, *_libraries(), *files])), listed_folders=tuple(listed),
        set_paths=set_paths,
    )  # fmt: skip


def _without_packages(folders: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Folders, files and folders to list that make up `folders` without the packages that are installed in them."""
    readable: list[str] = []
    files: list[str] = []
    listed: list[str] = []
    waiting = [os.path.realpath(folder) for folder in folders]
    packages = {os.path.realpath(path) for path in [*_system_packages(), *_packages_of_stdlib()]}
    while waiting:
        folder = waiting.pop()
        if folder in packages:
            continue
        # Landlock can only add rights: a folder with packages inside is opened entry by entry, without them.
        if not any(path.startswith(folder + os.sep) for path in packages):
            readable.append(folder)
            continue
        listed.append(folder)
        with os.scandir(folder) as entries:
            for entry in entries:
                (waiting if entry.is_dir() else files).append(entry.path)
    return readable, files, listed


def _system_packages() -> list[str]:
    return [path for name in _PACKAGE_FOLDERS for path in glob.glob(f"/usr/lib*/python3*/{name}")]


def _packages_of_stdlib() -> list[str]:
    return _existing(f"{_stdlib()}/{name}" for name in _PACKAGE_FOLDERS)


def _is_small(path: str) -> bool:
    if not os.path.isdir(path):
        return os.path.getsize(path) <= _SMALL_BYTES
    files = size = 0
    for top, _, names in os.walk(path):
        files += len(names)
        # As soon as it is known: a large package has thousands.
        if files > _SMALL_FILES:
            return False
        size += sum(os.path.getsize(os.path.join(top, name)) for name in names)
    return size <= _SMALL_BYTES


@lru_cache(maxsize=1)
def library_modules() -> tuple[str, ...]:
    """Modules of the libraries that programs can import, as far as they are installed."""
    names = {os.path.dirname(name) or name.removesuffix(".py") for name in library_entries(tuple(_sites()))}
    return tuple(sorted(name for name in names if name.isidentifier()))


@lru_cache(maxsize=1)
def library_versions() -> Mapping[str, str]:
    return visible_versions(_sites())


def builder_arguments() -> tuple[str, ...]:
    """Starts the builder of the jail, in place and by path: no package is importable for it yet."""
    return (_interpreter(), "-I", "-S", "-B", f"{_guest()}/jail/launch.py")


def _arguments(interpreter: str) -> tuple[str, ...]:
    # No -I: it ignores PYTHONHASHSEED, and a replay needs a fixed one.
    return (interpreter, "-S", "-s", "-P", "-B", "-c", _START)


def _interpreter() -> str:
    # Of a virtual environment, the interpreter that it was made from.
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    return os.path.realpath(base)


def _stdlib() -> str:
    return os.path.dirname(os.path.realpath(os.__file__))


def _guest() -> str:
    return str(Path(toolfold_guest.__file__).resolve().parent)


def _sites() -> list[str]:
    """Where packages are installed; not the folders of the host's own code."""
    # By name: the folder that the host was started in is on the path too, and is none of the program's business.
    paths = [path for path in sys.path if os.path.basename(path) in _PACKAGE_FOLDERS]
    return list(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.isdir(path)))


def _libraries() -> list[str]:
    """The interpreter's own shared library, where it has one, as the loader found it."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    paths = re.findall(r"(/\S.*/libpython\S*)$", maps, re.MULTILINE)
    return list(dict.fromkeys(os.path.realpath(path) for path in paths))


def _is_private(path: str) -> bool:
    return not path.startswith(_SYSTEM_FOLDERS)


def _system_folders() -> tuple[list[str], list[Pair]]:
    folders, links = [], []
    for path in _SYSTEM_FOLDERS:
        # /lib is a link to usr/lib on most systems; a bind would follow it and lose the other name.
        if os.path.islink(path):
            links.append((os.readlink(path), path))
        elif os.path.isdir(path):
            folders.append(path)
    if _interpreter().startswith("/nix/store/"):
        folders.append("/nix/store")
    return folders, links


def _existing(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if os.path.exists(path)]


def _parent(path: str) -> str:
    return os.path.dirname(path)


# ----------------------------------------------------------------------------------------------------
# Which of the installed packages programs may see: the libraries of the sets, and what those need.
#
# Read from the packages' own records, without `importlib.metadata`: that takes as long to import as a jail to build.

ROOTS: Final = (
    "numpy", "pandas", "matplotlib", "scipy", "scikit-learn", "seaborn", "statsmodels", "plotly", "sympy", "mpmath",
    "openpyxl", "xlsxwriter", "xlrd", "tabulate", "pytz",
    "pydantic", "python-dateutil", "rich", "tqdm",
)  # fmt: skip
"""Distributions that programs may import where they are installed; the second row is what pandas imports if asked."""

_SEPARATORS: Final = re.compile(r"[-_.]+")
_REQUIRES: Final = re.compile(r"^Requires-Dist:\s*([A-Za-z0-9._-]+)([^\n]*)$", re.MULTILINE)
_OF_A_DISTRIBUTION: Final = (".dist-info", ".egg-info", ".libs", ".data")


@lru_cache(maxsize=4)
def library_entries(sites: tuple[str, ...]) -> Mapping[str, str]:
    entries: dict[str, str] = {}
    for record in _visible(sites).values():
        for entry in _entries_of(record):
            if (record.parent / entry).exists():
                entries.setdefault(entry, str(record.parent / entry))
    return entries


def visible_versions(sites: Sequence[str]) -> Mapping[str, str]:
    return {name: record.stem.partition("-")[2] for name, record in _visible(sites).items()}


def _visible(sites: Sequence[str]) -> dict[str, Path]:
    records = _records(sites)
    waiting, libraries = list(ROOTS), dict[str, Path]()
    while waiting:
        name = _normal(waiting.pop())
        record = records.get(name)
        if record is None or name in libraries:
            continue
        libraries[name] = record
        waiting += _needed_by(record)
    return libraries


def _records(sites: Sequence[str]) -> dict[str, Path]:
    """The folder with the metadata of each distribution; of one that is installed twice the first, as in imports."""
    folders: dict[str, Path] = {}
    for site in sites:
        for name in sorted(os.listdir(site)):
            if name.endswith((".dist-info", ".egg-info")):
                folders.setdefault(_normal(name.split("-", 1)[0].removesuffix(".egg-info")), Path(site, name))
    return folders


def _needed_by(record: Path) -> Iterator[str]:
    head = _read(record / "METADATA").partition("\n\n")[0]
    for name, marker in _REQUIRES.findall(head):
        if "extra" not in marker:
            yield name
    # Of the older kind; a section is an extra.
    for line in _read(record / "requires.txt").splitlines():
        if line.startswith("["):
            break
        yield from re.findall(r"^[A-Za-z0-9._-]+", line)


def _entries_of(record: Path) -> set[str]:
    """What a distribution has in the folder of packages: whole folders, unless others may have a part in them."""
    paths = {line.partition(",")[0] for line in _read(record / "RECORD").splitlines()}
    paths = {path for path in paths if path and not path.startswith(("/", "..", "__pycache__/"))}
    if not paths:
        modules = _read(record / "top_level.txt").split() or [_normal(record.name.split("-", 1)[0]).replace("-", "_")]
        paths = {path for module in modules for path in (f"{module}/__init__.py", f"{module}.py")}
    entries = {record.name}
    for path in paths:
        first, _, rest = path.partition("/")
        is_shared = rest and not first.endswith(_OF_A_DISTRIBUTION) and f"{first}/__init__.py" not in paths
        entries.add(f"{first}/{rest.partition('/')[0]}" if is_shared else first)
    return entries


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _normal(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()


# ----------------------------------------------------------------------------------------------------
# Which jail a program runs in: one with the packages that it imports, and with no others.
#
# Every mount of a jail costs each guest that is forked in it, so an installed set is in the jail of the programs that
# need it. All others run in the one that they would have if no set were configured.

_ROOM_BYTES: Final = 128 * MIB
"""For numpy and the like, which a program may import along with the packages of an installed set."""


class Jail(NamedTuple):
    """Names a zygote of the engine: what is loaded in it, and what is mounted."""

    library_set: LibrarySet
    """One of the engine's own, or an installed one, which is mounted and loaded as its `preload` says."""
    has_all_sets: bool = False
    """For a session that keeps its names: its next program may import what this one does not."""
    is_shell: bool = False
    """For programs in bash."""

    def mounted(self, sets: Sequence[InstalledSet]) -> tuple[InstalledSet, ...]:
        return tuple(candidate for candidate in sets if self.has_all_sets or candidate.name == self.library_set)


BARE: Final = Jail("bare")
SHELL: Final = Jail("bare", is_shell=True)


def jail_of(library_set: LibrarySet, sets: Sequence[InstalledSet], *, is_session: bool = False) -> Jail:
    """The jail of a program that needs this set; one whose set is no longer configured goes without."""
    installed = installed_set(library_set, sets)
    if not is_session or not sets:
        return Jail(library_set if library_set in OWN_SETS else "bare" if installed is None else installed.name)
    # Of the sets that are only mounted, all are there: one zygote serves the sessions of all of them.
    is_loaded = library_set in OWN_SETS if installed is None else bool(installed.preload)
    return Jail((library_set if installed is None else installed.name) if is_loaded else "bare", has_all_sets=True)


def installed_set(library_set: LibrarySet, sets: Sequence[InstalledSet]) -> InstalledSet | None:
    """The set of that name, maybe with another content than when a program began."""
    if library_set in OWN_SETS:
        return None
    return next((candidate for candidate in sets if candidate.replaces(library_set)), None)


def with_room(limits: Limits, installed: InstalledSet | None) -> Limits:
    """Libraries that a guest imports by itself cost the program nothing, as those of the zygote."""
    if installed is None or installed.preload:
        return limits
    return replace(limits, memory_bytes=limits.memory_bytes + installed.code_bytes + _ROOM_BYTES)
