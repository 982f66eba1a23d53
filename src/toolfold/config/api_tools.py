"""API and fetch tools of a config: `tools.apis` and `tools.fetch`."""

from __future__ import annotations

from toolfold.config.model import Config
from toolfold.config.sections import ApiConfig, AuthConfig
from toolfold.sources.openapi.source import Api, api_tools
from toolfold.sources.web.client import fetch_tool
from toolfold.sources.web.credentials import ApiAuth
from toolfold.tools.tool import Tool


def web_tools(config: Config) -> list[Tool]:
    """The tools of every API, and `fetch`; an error names the line in the config."""
    tools: list[Tool] = []
    for at, api in enumerate(config.tools.apis):
        with config.errors_at("tools", "apis", at):
            tools += api_tools(_api(config, api))
    fetch = config.tools.fetch
    if fetch is not None:
        options = fetch.model_dump(include={"max_bytes", "timeout_seconds"}, exclude_none=True)
        secrets = {host: _auth(auth) for host, auth in fetch.secrets.items()}
        with config.errors_at("tools", "fetch"):
            tools.append(fetch_tool(fetch.hosts, methods=fetch.methods, secrets=secrets, **options))
    return tools


def _api(config: Config, api: ApiConfig) -> Api:
    options = api.model_dump(exclude={"auth", "spec"}, exclude_none=True)
    is_url = api.spec.startswith(("http://", "https://"))
    return Api(
        spec=api.spec if is_url else config.folder / api.spec,
        auth=None if api.auth is None else _auth(api.auth),
        # What came from a variable is a secret, whatever its header is called.
        secrets=[
            value for value in config.variables.values() if any(value in header for header in api.headers.values())
        ],
        **options,
    )


def _auth(auth: AuthConfig) -> ApiAuth:
    options = auth.model_dump(exclude={"type", "secret"}, exclude_none=True)
    return ApiAuth(type=auth.type, secret="" if auth.secret is None else auth.secret.get_secret_value(), **options)
