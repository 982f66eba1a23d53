"""Reserved names of every program, and the modules that a jail lacks, with their error messages."""

import builtins
from collections.abc import Mapping
from typing import Final, NamedTuple

GUEST_NAMES: Final = frozenset({"ToolError", "describe_files", "search_tools", "tools"})
"""What the guest adds to every program."""
PROGRAMS: Final = "programs"
"""The domain of saved programs, which needs no import."""
ANY_TOOL: Final = "__any__"
"""The tool behind every attribute of `tools` that has none of its own, where the caller alone knows its tools."""

_UNUSED: Final = frozenset({"copyright", "credits", "license"})  # of the interactive prompt; no program calls them
# `search_tools` is a tool itself. `exit`, `help` and `quit` are builtins only where `site` was imported.
_ADDED: Final = (GUEST_NAMES - {"search_tools"}) | {"asyncio", "exit", "help", "json", "quit"}

RESERVED: Final = (frozenset(name for name in dir(builtins) if not name.startswith("_")) | _ADDED) - _UNUSED
"""A tool of such a name is called `<name>_tool`, and also `tools.<name>`, which hides nothing."""

_TYPING: Final = frozenset(
    {"Any", "Callable", "Dict", "FrozenSet", "Generator", "Iterable", "Iterator", "List", "Literal", "Mapping",
     "NamedTuple", "Optional", "Sequence", "Set", "Tuple", "TypedDict", "Union"}
)  # fmt: skip
NOTEBOOK_NAMES: Final = _TYPING | {"describe_files", "display", "final_answer"}
"""Names that programs use as if an earlier cell had imported them."""
NOTEBOOK_MODULES: Final = frozenset({"IPython", "nest_asyncio"})
"""Modules that programs can import although they are not installed."""

DATA_LIBRARIES: Final = (
    "numpy", "pandas", "matplotlib", "matplotlib.pyplot", "matplotlib.font_manager", "matplotlib.backends.backend_agg",
)  # fmt: skip
SCIENCE_LIBRARIES: Final = ("scipy", "scipy.stats", "scipy.optimize", "sklearn", "sklearn.linear_model")
"""A set of their own: twice the memory of `data`, and few programs need them."""


# ----------------------------------------------------------------------------------------------------
# What a jail does not have, in words, and the libraries for the network that programs may import all the same.

NETWORK = "there is no network"
PROCESS = "no process can be started"

_FEW = 6
tools: list[Mapping[str, int]] = [{}]
"""What to call instead, in this program; set without a call, which would take a guest some pages."""


class Library(NamedTuple):
    """What there is to know of one."""

    errors: str = "ConnectionError"
    """The library's base class of errors, then others, down to the one that it raises without a network."""
    calls: str = ""
    """Functions that are certain to need the network."""
    of: str = ""
    """The library whose errors it raises, if they are not its own."""


_REQUESTS = "delete get head options patch post put request"
_DATABASE = Library("Error DatabaseError OperationalError", "connect")
LIBRARIES = {
    "aiohttp": Library("ClientError ClientConnectionError ClientOSError ClientConnectorError"),
    "anthropic": Library("AnthropicError APIError APIConnectionError"),
    "asyncpg": Library("PostgresError ConnectionDoesNotExistError"), "boto3": Library(of="botocore"),
    "botocore": Library("BotoCoreError EndpointConnectionError"), "cloudscraper": Library(of="requests"),
    "duckduckgo_search": Library("DuckDuckGoSearchException"),
    "elasticsearch": Library("ApiError TransportError ConnectionError"), "google.cloud": Library("GoogleAPIError"),
    "google.genai": Library("APIError"), "google.generativeai": Library("GoogleAPIError"),
    "googleapiclient": Library("Error HttpError"), "grpc": Library("RpcError"),
    "httplib2": Library("HttpLib2Error ServerNotFoundError"),
    "httpx": Library("HTTPError RequestError TransportError NetworkError ConnectError", f"{_REQUESTS} stream"),
    "kafka": Library("KafkaError NoBrokersAvailable"), "mysql": Library(_DATABASE.errors),
    "openai": Library("OpenAIError APIError APIConnectionError"),
    "paramiko": Library("SSHException NoValidConnectionsError"), "pika": Library("AMQPError AMQPConnectionError"),
    "playwright": Library("Error"), "praw": Library("PRAWException"), "psycopg": _DATABASE, "psycopg2": _DATABASE,
    "pycurl": Library("error"), "pymongo": Library("PyMongoError ConnectionFailure ServerSelectionTimeoutError"),
    "pymysql": Library("MySQLError Error DatabaseError OperationalError", "connect"),
    "redis": Library("RedisError ConnectionError"), "requests": Library("RequestException ConnectionError", _REQUESTS),
    "requests_cache": Library(of="requests"), "requests_html": Library(of="requests"),
    "selenium": Library("WebDriverException"), "slack_sdk": Library("SlackClientError SlackApiError"),
    "stripe": Library("StripeError APIConnectionError"), "tweepy": Library("TweepyException"),
    "twilio": Library("TwilioException"), "urllib3": Library("HTTPError MaxRetryError", "request"),
    "websocket": Library("WebSocketException ConnectionError", "create_connection"),
    "websockets": Library("WebSocketException ConnectionError"),
    "wikipedia": Library("WikipediaException", "page search summary"),
    "yfinance": Library("YFException ConnectionError", "download"),
}  # fmt: skip
MODULES = frozenset(name.partition(".")[0] for name in LIBRARIES)
"""What can be imported although it is not installed."""


def library_of(path: str) -> str | None:
    while path and path not in LIBRARIES:
        path = path.rpartition(".")[0]
    return path or None


def message(module: str, reason: str) -> str:
    names = list(tools[0])
    few = ", ".join(names[:_FEW]) + (", ..." if len(names) > _FEW else "")
    instead = f"; call a tool instead: {few}" if names else ", and this program has no tools"
    return f"{module!r} cannot work here: {reason}{instead}"
