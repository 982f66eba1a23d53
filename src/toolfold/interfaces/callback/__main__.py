"""`python -m toolfold.interfaces.callback`: the child on stdio, or on HTTP for parents that connect to it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import anyio
from mcp.server.stdio import stdio_server

from toolfold.engines.registry import known_engine
from toolfold.errors import UsageError
from toolfold.interfaces.callback.child_server import make_server
from toolfold.interfaces.server.local_requests import OnlyFromHere, is_loopback


def main() -> None:
    """Serve until the parent closes the connection."""
    options = _options()
    workspace = options.workspace.resolve()
    if not workspace.is_dir():
        sys.exit(f"toolfold: --workspace {str(options.workspace)!r} is not a folder")
    if options.transport != "stdio" and not is_loopback(options.host):
        sys.exit(
            f"toolfold: --host {options.host!r} can be reached from elsewhere, and this server asks for no token; "
            "listen on 127.0.0.1, or start 'toolfold mcp --callback --http' with a token"
        )
    if options.transport == "stdio":
        anyio.run(_serve_stdio, workspace, options.engine)
    else:
        _serve_http(workspace, options.engine, options.host, options.port)


async def _serve_stdio(workspace: Path, engine: str) -> None:
    # Who is at the other end of our stdin has started us, and may write wherever we may.
    server = make_server(workspace, engine=engine, any_workspace=True)
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


def _serve_http(workspace: Path, engine: str, host: str, port: int) -> None:
    # Here, not at the top: stdio, which nearly every parent uses, starts without it.
    import uvicorn  # noqa: PLC0415
    from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415
    from starlette.types import ASGIApp  # noqa: PLC0415

    app: ASGIApp = make_server(workspace, engine=engine).streamable_http_app(
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False)
    )
    app = OnlyFromHere(app, text="only this machine is served; others need 'toolfold mcp --callback --http'")
    uvicorn.run(app, host=host, port=port, log_level=os.environ.get("TOOLFOLD_LOG_LEVEL", "warning"))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m toolfold.interfaces.callback", description=__doc__)
    parser.add_argument("--workspace", type=Path, default=Path(), help="where programs with a file name are saved")
    parser.add_argument("--engine", type=_engine, default="auto")
    parser.add_argument("--transport", choices=["stdio", "streamable-http"], default="stdio")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8085)
    return parser.parse_args()


def _engine(name: str) -> str:
    try:
        return known_engine(name)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    main()
