"""Schemathesis over the OpenAPI document: no 500, no status, header or body that the document does not have.

Its command line, in a process of its own: `pyproject.toml` keeps its pytest plugin out of every run.
"""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.interfaces.http.conftest import KEYS, Served

CONFIG = """
seed = 5
generation.max-examples = {examples}
generation.database = "none"
request-timeout = 30
headers = {{ X-API-Key = "{key}", User-Agent = "{agent}" }}

# A token, a file's id or a program may be of the right type and still be refused.
[checks]
positive_data_acceptance.enabled = false
# LibreChat hears of mistakes with status 200.
negative_data_rejection.enabled = {is_told}

# Every field of a form is text, so that a number is no mistake there.
[[operations]]
include-path-regex = "^/upload"
checks.negative_data_rejection.enabled = false

# So that some requests find a file.
[[operations]]
include-path-regex = "^/(download|files)|objects"
parameters = {{ session = "{session}", file = "{file}" }}
include-method = "GET"

[[operations]]
include-path-regex = "^/executions"
parameters = {{ execution_id = "{execution}" }}
include-method = "GET"
"""


@pytest.mark.long
@pytest.mark.parametrize("agent", ["schemathesis", "LibreChat/1.0"])
async def test_whatever_fits_the_document_gets_what_the_document_says(
    served: Served, tmp_path: Path, agent: str
) -> None:
    async with served(starts_per_minute=10**6, timeout_seconds=3, max_timeout_seconds=5) as client:
        [file] = (await client.post("/upload", files={"file": ("a.txt", b"1")}, data={"session_id": "s"})).json()[
            "files"
        ]
        started = await client.post("/exec", json={"code": "print(1)"}, headers={"Prefer": "respond-async"})
        config = CONFIG.format(
            examples=20 if agent == "schemathesis" else 6,
            key=KEYS["one"],
            agent=agent,
            is_told=str(agent == "schemathesis").lower(),
            session="s",
            execution=started.json()["execution_id"],
            file=file["fileId"],
        )
        (tmp_path / "schemathesis.toml").write_text(config, "utf-8")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "schemathesis.cli", "--no-color", "run", f"{client.base_url}/openapi.json",
            cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said = (await process.communicate())[0].decode()

    assert process.returncode == 0, said[-6000:]
    assert ("Tested: 17" in said, "Authentication failed" in said) == (True, False), said[-2000:]
