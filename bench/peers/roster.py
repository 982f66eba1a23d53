"""Who takes part: what is installed for it, where its adapter is, and how it keeps programs apart."""

from dataclasses import dataclass

FLOOR, OURS = "exec", "toolfold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    title: str
    adapter: str
    isolation: str
    """`none`, or what stands between a program and the host."""
    isolates: bool = False
    """Whether a program runs in a process of its own or behind an interpreter that is meant as a wall."""
    packages: tuple[str, ...] = ()
    """Those whose versions the report names."""
    environment: str = ""
    """Where it is installed, if not under its own name."""


_HERE = "bench.peers.adapters"

PEERS = {
    FLOOR: Peer(title="in-process exec", adapter=f"{_HERE}.in_process:InProcess", isolation="none"),
    OURS: Peer(
        title="toolfold",
        adapter=f"{_HERE}.toolfold:Toolfold",
        isolation="jail: own process, namespaces, Landlock, seccomp, limits",
        isolates=True,
    ),
    "toolfold-wasm": Peer(
        title="toolfold, engine wasm",
        adapter=f"{_HERE}.toolfold:ToolfoldWasm",
        isolation="WebAssembly in a worker process",
        isolates=True,
    ),
    "toolfold-monty": Peer(
        title="toolfold, engine monty",
        adapter=f"{_HERE}.toolfold:ToolfoldMonty",
        isolation="restricted interpreter (Monty) in a worker process",
        isolates=True,
    ),
    "monty": Peer(
        title="Monty, raw",
        adapter=f"{_HERE}.monty:Monty",
        isolation="restricted interpreter in a worker process without OS walls",
        isolates=True,
        packages=("pydantic-monty",),
    ),
    "harness": Peer(
        title="harness CodeMode",
        adapter=f"{_HERE}.harness:Harness",
        isolation="restricted interpreter (Monty) in a worker process without OS walls",
        isolates=True,
        packages=("pydantic-ai-harness", "pydantic-ai-slim", "pydantic-monty"),
    ),
    "fastmcp": Peer(
        title="FastMCP CodeMode",
        adapter=f"{_HERE}.fastmcp:FastMcp",
        isolation="restricted interpreter (Monty) in a worker process without OS walls",
        isolates=True,
        packages=("fastmcp", "pydantic-monty"),
    ),
    "smolagents": Peer(
        title="smolagents local",
        adapter=f"{_HERE}.smolagents:Smolagents",
        isolation="restricted interpreter in the host's process; by its own words no sandbox",
        packages=("smolagents",),
    ),
    "utcp": Peer(
        title="UTCP code-mode",
        adapter=f"{_HERE}.utcp:Utcp",
        isolation="restricted compiler (RestrictedPython) in the host's process",
        packages=("code-mode", "utcp", "RestrictedPython"),
    ),
    "jupyter": Peer(
        title="Jupyter kernel, warm",
        adapter=f"{_HERE}.jupyter:Jupyter",
        isolation="one process for all programs, with the user's rights",
        packages=("ipykernel", "jupyter_client"),
    ),
    "agent": Peer(
        title="the agent alone",
        adapter=f"{_HERE}.agents:PlainAgent",
        isolation="none",
        packages=("pydantic-ai-slim",),
        environment="harness",
    ),
    "agent-toolfold": Peer(
        title="toolfold CodeModeToolset",
        adapter=f"{_HERE}.agents:ToolfoldAgent",
        isolation="jail: own process, namespaces, Landlock, seccomp, limits",
        isolates=True,
        packages=("pydantic-ai-slim",),
        environment="harness",
    ),
    "agent-harness": Peer(
        title="harness CodeMode",
        adapter=f"{_HERE}.agents:HarnessAgent",
        isolation="restricted interpreter (Monty) in a worker process without OS walls",
        isolates=True,
        packages=("pydantic-ai-harness", "pydantic-ai-slim", "pydantic-monty"),
        environment="harness",
    ),
}

SPEED_PEERS = (FLOOR, OURS, "monty", "harness", "fastmcp", "smolagents", "utcp", "jupyter")
LANGUAGE_PEERS = (
    OURS,
    "toolfold-wasm",
    "toolfold-monty",
    "monty",
    "harness",
    "fastmcp",
    "smolagents",
    "utcp",
    "jupyter",
)
AGENT_PEERS = ("agent", "agent-toolfold", "agent-harness")
