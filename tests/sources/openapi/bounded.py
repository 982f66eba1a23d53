"""Loads one document with a bound on memory: `python bounded.py FILE BYTES`. Prints what came of it, and the peak."""

import json
import logging
import resource
import sys


def main(path: str, most_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    # Imported here: within the bound, too.
    from toolfold.errors import UsageError
    from toolfold.prompts.python_stubs import module_text
    from toolfold.sources.openapi.source import openapi_tools

    warnings: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warnings.append(record.getMessage())

    logging.getLogger().addHandler(Kept())
    try:
        tools = openapi_tools(path, name="shop", base_url="https://shop.example")
        compile(module_text([tool.spec for tool in tools[:200]]), "stubs", "exec")
        told = f"{len(tools)} tools"
    except UsageError as error:
        told = str(error)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"told": told, "warnings": warnings, "peak_mib": peak}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
