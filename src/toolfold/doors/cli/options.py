"""What `toolfold run` and its kin were told to do."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """One command line, as it was written."""

    program: str = ""
    """A file, or `-`; empty if `code` is the program."""
    code: str | None = None
    tools: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    limits: tuple[str, ...] = ()
    """`NAME=VALUE` each."""
    engine: str | None = None
    """`None`: the config's, or the usual one; the same for the isolation."""
    isolation: str | None = None
    address: str | None = None
    files: tuple[Path, ...] = ()
    out: Path | None = None
    as_json: bool = False
    is_verbose: bool = False
    accept_no_isolation: bool = False
    ledger: str | None = None
    config: Path | None = None
    yes: bool = False
    """Every call that needs approval has it."""
    detach: bool = False
