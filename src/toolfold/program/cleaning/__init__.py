"""Texts that Python refuses only for what stands around or between the program: wrappers and odd characters."""

from toolfold.program.cleaning.clean import clean
from toolfold.program.cleaning.json_object import Cleaned, unwrap_json
from toolfold.program.cleaning.wrappers import Refused, is_typed_in_ipython

__all__ = ["Cleaned", "Refused", "clean", "is_typed_in_ipython", "unwrap_json"]
