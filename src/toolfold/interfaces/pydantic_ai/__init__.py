"""Pydantic AI interface: toolsets whose tools a model calls from programs. Needs `toolfold[pydantic-ai]`."""

from toolfold.errors import install_extra

try:
    # The one optional package that all modules of this interface need.
    import pydantic_ai as _needed  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"toolfold.pydantic_ai needs Pydantic AI; {install_extra('pydantic-ai')}") from error
