"""Texts that Python refuses only for what stands around or between the program: wrappers and odd characters."""

from toolfold.program.cleaning.clean import Cleaned, clean, unwrap_json
from toolfold.program.cleaning.wrappers import Refused

__all__ = ["Cleaned", "Refused", "clean", "unwrap_json"]
