"""Library of saved programs: folders of files, their versions, what models propose, and what each tenant is offered.

In a folder: `NAME.py` and `NAME.record.json`, former versions as `NAME.v1.py` beside them, proposals in `proposed/`,
and programs of one tenant in `tenants/<tenant>/`, which has the same form. Files may change at any time.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from toolfold.errors import UsageError
from toolfold.models import ToolSpec
from toolfold.programs.saved_program import ProgramRecord, SavedProgram, check_name, fingerprint, hash_of
from toolfold.sources.saved_programs import SOURCE

if TYPE_CHECKING:
    from toolfold.models import Outcome
    from toolfold.tools.catalog import Catalog
    from toolfold.tools.policy import Policy
    from toolfold.tools.tool import Tool

_log: Final = logging.getLogger("toolfold.programs")
_LOOK_SECONDS: Final = 1.0
"""So long it may take until a file that was changed in place is read again."""
_MOST_RUNS: Final = 1000
_HINT: Final = (
    "you have run this code twice: 'await save_program(name=..., description=..., parameters={...})' makes it a tool"
)
_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

ModelsMay = Literal["nothing", "propose", "save"]


class ProgramFolders:
    """Saved programs in folders.

    Args:
        folders: Where programs are; the first one takes new ones.
        models_may: What `save_program` does: store a proposal that a person accepts, or a program; without it there is
            no such tool.
        withholds: Offer no program that nothing proves any more: edited, or with a tool that has changed.
    """

    def __init__(
        self, *folders: str | os.PathLike[str], models_may: ModelsMay = "nothing", withholds: bool = False
    ) -> None:
        if not folders:
            raise UsageError("a library of programs needs a folder, as in ProgramLibrary('programs')")
        self.folders = tuple(Path(folder) for folder in folders)
        self.models_may: ModelsMay = models_may
        self._withholds = withholds
        self._files: dict[Path, tuple[tuple[int, int], SavedProgram | None]] = {}
        self._stamps: dict[str, tuple[float, tuple[object, ...]]] = {}
        self._warnings: set[str] = set()
        self._runs: dict[str, int] = {}

    # Any: a `Runtime`, of which nothing is needed here.
    def bind(self, runtime: Any, /) -> None:
        """A runtime begins to offer these programs."""

    # what there is

    def programs(self, tenant: str = "") -> list[SavedProgram]:
        """The shared programs and the tenant's own, by name; of two of one name the first folder's."""
        names: dict[str, SavedProgram] = {}
        for folder in self._folders(tenant):
            for program in self._read(folder):
                names.setdefault(program.name, program)
        return [names[name] for name in sorted(names)]

    def get(self, name: str, tenant: str = "", *, version: int | None = None) -> SavedProgram:
        """One program, or a former version of it.

        Raises:
            UsageError: It is not there.
        """
        check_name(name)
        for folder in self._folders(tenant):
            path = folder / (f"{name}.py" if version is None else f"{name}.v{version}.py")
            program = self._parsed(path, name)
            if program is not None:
                return program
        if version is not None and (current := self.get(name, tenant)).version == version:
            return current
        near = difflib.get_close_matches(name, [program.name for program in self.programs(tenant)], 1)
        what = name if version is None else f"{name} version {version}"
        raise UsageError(f"no saved program {what!r}" + (f"; did you mean {near[0]!r}?" if near else ""))

    def record(self, name: str, tenant: str = "", *, proposed: bool = False) -> tuple[ProgramRecord, str]:
        """The record of a program, and its hash.

        Raises:
            UsageError: It is gone, or cannot be read.
        """
        for folder in self._folders(tenant, proposed=proposed):
            if (folder / f"{name}.py").exists():
                try:
                    content = (folder / f"{name}.record.json").read_bytes()
                except OSError as error:
                    reason = (error.strerror or str(error)).lower()
                    raise UsageError(f"the record of saved program {name!r} cannot be read: {reason}") from error
                return ProgramRecord.of_file(name, content), hash_of(content)
        raise UsageError(f"no saved program {name!r}")

    def proposals(self, tenant: str = "") -> list[SavedProgram]:
        """What models proposed and nobody has decided on."""
        programs = [program for folder in self._folders(tenant, proposed=True) for program in self._read(folder)]
        return sorted(programs, key=lambda program: program.name)

    def tenants(self) -> list[str]:
        """Those who have programs or proposals of their own, as their folders are called."""
        folders = (path for folder in self.folders for path in (folder / "tenants").glob("*"))
        return sorted({path.name for path in folders if path.is_dir()})

    def revision(self, tenant: str = "") -> tuple[str, object]:
        """Whose programs the tenant is offered, and what changes when these do."""
        own = tenant if tenant and any(folder.is_dir() for folder in self._own_folders(tenant)) else ""
        now = time.monotonic()
        since, stamp = self._stamps.get(own, (0.0, ()))
        folders = tuple(_stamp(folder) for folder in self._folders(own))
        if now - since > _LOOK_SECONDS or stamp[:1] != (folders,):
            files = tuple(_stamp(path) for folder in self._folders(own) for path in _paths(folder))
            self._stamps[own] = (now, (folders, files))
        return own, self._stamps[own][1]

    # what programs are offered

    def tools(self, catalog: Catalog, policy: Policy, tenant: str = "") -> Iterator[Tool]:
        """The programs that can run with these tools under this policy."""
        programs = {program.name: program for program in self.programs(tenant)}
        specs = {spec.name: spec for spec in catalog.specs}
        taken = {name for spec in specs.values() for name in (spec.name, spec.python_name, *spec.aliases)}

        def can_run(program: SavedProgram, callers: tuple[str, ...] = ()) -> bool:
            for name in program.tools:
                if name in programs and name not in specs:
                    if name not in callers and not can_run(programs[name], (*callers, program.name)):
                        return False
                elif name not in specs or not policy.permits(specs[name]) or specs[name].allowed_callers == "direct":
                    return False
            return True

        tools = {name: program.as_tool() for name, program in programs.items()}
        known = {**{name: tool.spec for name, tool in tools.items()}, **specs}
        schemas: dict[str, str] = {}
        for program in programs.values():
            problems = self._problems(program, known, schemas)
            if program.name in taken:
                problems = [f"a tool is called {program.name!r}, too; rename the file"]
            if problems:
                self._warn(program, problems)
            if program.name not in taken and can_run(program) and not (problems and self._withholds):
                yield tools[program.name]

    def with_mentioned(self, text: str, tenant: str = "") -> str:
        """A text, followed by those of the saved programs that it mentions: all that may call a tool."""
        texts, programs = [text], {program.name: program for program in self.programs(tenant)}
        for part in texts:
            mentioned = programs.keys() & set(re.findall(r"\w+", part))
            texts += [programs.pop(name).text for name in sorted(mentioned)]
        return "\n".join(texts)

    def problems(self, program: SavedProgram, specs: Iterable[ToolSpec]) -> list[str]:
        """Why nothing proves the program any more, as far as its header tells."""
        return self._problems(program, {spec.name: spec for spec in specs}, {})

    def _problems(self, program: SavedProgram, specs: Mapping[str, ToolSpec], schemas: dict[str, str]) -> list[str]:
        """`schemas` has the hashes that are known so far: many programs call the same tools."""
        rerecord = f"'toolfold programs test {program.name} --rerecord' proves it anew"
        problems = [f"it was edited since its record; {rerecord}"] if program.is_edited else []
        for name, known in program.tools.items():
            spec = specs.get(name)
            if spec is None:
                problems.append(f"its tool {name!r} is not there; connect its server, or save the program anew")
            elif spec.source != SOURCE:
                schema = schemas.get(name) or schemas.setdefault(name, fingerprint(spec).schema)
                if schema != known.schema:
                    problems.append(f"the schema of {name!r} has changed since its record; {rerecord}")
        return problems

    def _warn(self, program: SavedProgram, problems: Sequence[str]) -> None:
        for problem in problems:
            line = f"saved program {program.name!r}: {problem}"
            if line not in self._warnings:
                self._warnings.add(line)
                _log.warning("%s", line)

    def hint_on(self, text: str, outcome: Outcome, tenant: str = "", /) -> str:
        """One hint, when a program has run twice with equal code, whatever its literals."""
        if self.models_may == "nothing" or outcome.status != "finished" or not outcome.calls:
            return ""
        if any(call.name == "save_program" for call in outcome.calls):
            return ""
        key = f"{tenant} {_without_literals(text)}"
        count = self._runs[key] = self._runs.pop(key, 0) + 1
        while len(self._runs) > _MOST_RUNS:
            del self._runs[next(iter(self._runs))]
        return _HINT if count == 2 else ""

    # changes

    def write(
        self, program: SavedProgram, record: ProgramRecord, tenant: str = "", *, proposed: bool = False
    ) -> SavedProgram:
        """Keep a program with its record, and the former version beside it; the program as it was kept."""
        check_name(program.name)
        shared = {other.name for folder in self.folders for other in self._read(folder)} if tenant else set()
        if program.name in shared:
            raise UsageError(f"{program.name!r} is the name of a shared program; choose another name")
        folder = next(self._folders(tenant, proposed=proposed, own_first=True))
        content = record.to_file()
        former = None if proposed else self._parsed(folder / f"{program.name}.py", program.name)
        version = 1 if former is None else former.version + 1
        program = msgspec.structs.replace(program, version=version, record=hash_of(content)).proved()
        folder.mkdir(parents=True, exist_ok=True)
        if former is not None:
            _keep_former(folder, former)
        _replace(folder / f"{program.name}.record.json", content)
        _replace(folder / f"{program.name}.py", program.to_file().encode())
        return program

    def accept(self, name: str, tenant: str = "") -> SavedProgram:
        """Make a proposal a program.

        Raises:
            UsageError: There is no such proposal.
        """
        folder, program = self._proposal(name, tenant)
        record, _ = self.record(name, tenant, proposed=True)
        accepted = self.write(program, record, tenant)
        _remove(folder, name)
        return accepted

    def reject(self, name: str, tenant: str = "") -> None:
        """Forget a proposal."""
        _remove(self._proposal(name, tenant)[0], name)

    def remove(self, name: str, tenant: str = "") -> None:
        """Delete a program with its record; its former versions stay."""
        self.get(name, tenant)
        folder = next(folder for folder in self._folders(tenant) if (folder / f"{name}.py").exists())
        _remove(folder, name)

    def diff(self, name: str, tenant: str = "", *, version: int | None = None) -> str:
        """What changed from a version to the current one; from the one before, unless it is named."""
        current = self.get(name, tenant)
        if version is None and current.version == 1:
            return ""
        former = self.get(name, tenant, version=current.version - 1 if version is None else version)
        names = (f"{name} version {former.version}", f"{name} version {current.version}")
        lines = difflib.unified_diff(_shown(former), _shown(current), *names, lineterm="")
        return "".join(f"{line}\n" for line in lines)

    def _proposal(self, name: str, tenant: str) -> tuple[Path, SavedProgram]:
        check_name(name)
        for folder in self._folders(tenant, proposed=True):
            if (program := self._parsed(folder / f"{name}.py", name)) is not None:
                return folder, program
        raise UsageError(f"no proposed program {name!r}; 'toolfold programs list' shows what is proposed")

    # folders and files

    def _folders(self, tenant: str, *, proposed: bool = False, own_first: bool = False) -> Iterator[Path]:
        folders = [*self.folders, *self._own_folders(tenant)]
        if tenant and (proposed or own_first):
            folders = self._own_folders(tenant)
        yield from (folder / "proposed" if proposed else folder for folder in folders)

    def _own_folders(self, tenant: str) -> list[Path]:
        if not tenant:
            return []
        name = tenant if _PLAIN.fullmatch(tenant) else f"t-{hashlib.sha256(tenant.encode()).hexdigest()[:32]}"
        return [folder / "tenants" / name for folder in self.folders]

    def _read(self, folder: Path) -> Iterator[SavedProgram]:
        for path in _paths(folder):
            if (program := self._parsed(path, path.stem)) is not None:
                yield program

    def _parsed(self, path: Path, name: str) -> SavedProgram | None:
        stamp = _stamp(path)
        if stamp == (0, 0):
            return None
        known = self._files.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            program = SavedProgram.of_file(name, path.read_text(encoding="utf-8"))
        except (UsageError, OSError, UnicodeDecodeError) as error:
            self._warn_of_file(path, error)
            program = None
        self._files[path] = (stamp, program)
        return program

    def _warn_of_file(self, path: Path, error: Exception) -> None:
        if isinstance(error, UsageError):
            _log.warning("%s; restore the file, or save the program anew", error)
        else:
            _log.warning("saved program %r cannot be read: %s", path.stem, error)


def _without_literals(text: str) -> str:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return hash_of(text.encode("utf-8", "replace"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value = None
    return hash_of(ast.dump(tree).encode())


def _shown(program: SavedProgram) -> list[str]:
    """Signature and text: what a person compares."""
    parameters = [f"# {name}: {msgspec.json.encode(schema).decode()}" for name, schema in program.parameters.items()]
    return [f"# {program.description}", *parameters, *program.text.rstrip("\n").split("\n")]


def _paths(folder: Path) -> list[Path]:
    try:
        names = sorted(entry for entry in os.listdir(folder) if entry.endswith(".py") and entry.count(".") == 1)
    except OSError:
        return []
    return [folder / name for name in names]


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def _keep_former(folder: Path, former: SavedProgram) -> None:
    """Beside its successor, and as it was proved where somebody has edited it since."""
    record, kept = folder / f"{former.name}.record.json", f"{former.name}.v{former.version}"
    try:
        text = ProgramRecord.of_file(former.name, record.read_bytes()).text
    except (UsageError, OSError):
        text = former.text
    _replace(folder / f"{kept}.py", msgspec.structs.replace(former, text=text).to_file().encode())
    if record.exists():
        os.replace(record, folder / f"{kept}.record.json")


def _replace(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"saved programs cannot be written to {str(path.parent)!r}: {reason}") from error


def _remove(folder: Path, name: str) -> None:
    for suffix in (".py", ".record.json"):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)
