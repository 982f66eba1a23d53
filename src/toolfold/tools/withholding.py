"""The step that tells a program only the type of a tool's error, for operators who trust no text of their tools."""

from __future__ import annotations

import logging
from typing import Final

from toolfold.models import Value
from toolfold.tools.masking import masked
from toolfold.tools.router import SPEAKS_FOR_ITSELF, Handler, Request, message_of
from toolfold.tools.tool import Tool

_log: Final = logging.getLogger("toolfold.tools")


def withholding(tool: Tool, rest: Handler) -> Handler:
    """The step that lets only the type of a tool's error through; the log has all of it but secrets."""
    name = tool.spec.name

    async def withhold(request: Request) -> Value:
        try:
            return await rest(request)
        except SPEAKS_FOR_ITSELF:
            raise
        # Also `SystemExit`, which the router takes for a failure of the tool.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            # Half a surrogate pair has no UTF-8 form, and the line would be lost.
            text = masked(message_of(error)).encode("utf-8", "backslashreplace").decode()
            _log.warning("%r failed: %s: %s", name, type(error).__name__, text)
            raise Withheld(type(error).__name__) from None

    return withhold


class Withheld(Exception):
    """An error of which only the type is told."""
