"""The one place where an error becomes a line and an exit code, and the way out of the process."""

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from toolfold.doors.cli.exits import Exit, exit_of_error
from toolfold.errors import ToolfoldError, UsageError


def guarded(work: Callable[[], int]) -> int:
    """The exit code of the work; every error is one line on stderr, and so is each mistake in a config."""
    try:
        return work()
    except UsageError as error:
        return complain(*(error.mistakes or [str(error)]), code=exit_of_error(error))
    except ToolfoldError as error:
        return complain(str(error), code=exit_of_error(error))
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    # The last line of defence: whatever else is wrong is our mistake, and still one line.
    except Exception as error:
        if os.environ.get("TOOLFOLD_DEBUG"):
            raise
        hint = "this is a bug in toolfold; set TOOLFOLD_DEBUG=1 to see where"
        return complain(f"{type(error).__name__}: {error} ({hint})", code=Exit.INTERNAL)


def complain(*messages: str, code: int) -> int:
    """One line on stderr for each message, whatever it is; the code."""
    for message in messages:
        print(f"toolfold: {' '.join(message.split())}", file=sys.stderr)
    return code


def leave(code: int) -> NoReturn:
    """End the process, with what is registered for its end done."""
    # Python would wait for threads, but a tool that does not come back cannot be stopped, and the outcome is out.
    # Also where there are none: to take down what the process consists of lasts as long as to run a small program.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # Whoever reads may have left.
        with suppress(BrokenPipeError):
            stream.flush()
    os._exit(code)
