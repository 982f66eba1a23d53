"""How much of a value can cross the wall: one set of limits for guests, tools and every engine.

What becomes of an object that is no JSON value is in `forms`. Two differences are meant: a program's NaN is sent as
null and its infinity is refused, because JSON has neither, but replies keep both, because Python has them.
"""

import sys
from typing import Final

MAX_DEPTH: Final = 200
"""Lists and dicts within each other; the arguments of a call are the first of them."""
MAX_DIGITS: Final = 4300
"""Of an integer. More than these Python itself does not turn into text, so every JSON encoder here refuses them."""
LONGEST_RANGE: Final = 1_000_000

_TOO_LARGE: Final = 10**MAX_DIGITS
_MAX_SHOWN_BITS: Final = 1_000_000


def can_be_sent(number: int) -> bool:
    """Whether an integer has a form in JSON."""
    return -_TOO_LARGE < number < _TOO_LARGE


def is_text(text: str) -> bool:
    """Whether text has a form in UTF-8; a lone surrogate has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def escaped(text: str) -> str:
    """The same text with lone surrogates as they are written in source code."""
    return text.encode("utf-8", "backslashreplace").decode()


def digits(number: int) -> str:
    """All digits of an integer that cannot be sent, up to a size that still takes little time."""
    if number.bit_length() > _MAX_SHOWN_BITS:
        return f"an integer of {number.bit_length()} bits"
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return str(number)
    finally:
        sys.set_int_max_str_digits(limit)


def too_deep(path: str) -> str:
    """What is wrong with a container that is nested too deeply."""
    return f"{path[:60]}... is nested more than {MAX_DEPTH} levels deep"


def too_long(path: str) -> str:
    """What is wrong with an integer that cannot be sent."""
    return f"{path} is an integer of more than {MAX_DIGITS} digits, which cannot be sent"


def not_text(path: str) -> str:
    """What is wrong with text that is not."""
    return f"{path} is text with a lone surrogate, which cannot be sent"


def infinite(path: str) -> str:
    """What is wrong with a float that JSON has no number for."""
    return f"{path} is infinite, which JSON has no number for"
