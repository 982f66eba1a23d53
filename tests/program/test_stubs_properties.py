import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.program.schemas import INPUT_SCHEMAS, SCHEMAS, TEXTS
from toolfold.models import ToolSpec
from toolfold.prompts.python_stubs import Stub, module_text, prompt_text, write_tree
from toolfold.tools.tool import python_name

SPECS = st.builds(
    lambda name, description, domain, input_schema, output_schema, example: ToolSpec(
        name=name,
        python_name=python_name(name),
        domain=domain,
        description=description,
        input_schema=input_schema,
        output_schema=output_schema,
        examples=(example,),
    ),
    st.sampled_from(["get-users", "class", "日本", "a-b", "a_b", "Node", "__init__", "__debug__", "str", "match"]),
    TEXTS,
    st.sampled_from(["", "hr", "a-b", "../..", "class", "a_b", "9"]),
    INPUT_SCHEMAS,
    st.none() | SCHEMAS.filter(lambda one: isinstance(one, dict)),
    st.dictionaries(st.sampled_from(["id", "user-id", "class"]), st.floats() | TEXTS, max_size=2),
)


def calling_body(stub: Stub) -> str:
    given_ = ", ".join(f"{one.name!r}: {one.python_name}" for one in stub.parameters)
    return f"return await call({{{given_}}})"


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(spec=SPECS)
def test_every_schema_gives_python_that_compiles(spec: ToolSpec) -> None:
    for text in (prompt_text([spec]), module_text([spec]), module_text([spec], body=calling_body)):
        tree = ast.parse(text.encode())

        assert isinstance(tree.body[-1], ast.AsyncFunctionDef)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs=st.lists(SPECS, max_size=4), budget=st.integers(100, 2000))
def test_a_prompt_keeps_to_its_budget_and_compiles(specs: list[ToolSpec], budget: int) -> None:
    text = prompt_text(specs, budget_characters=budget)

    ast.parse(text.encode())
    assert len(text) <= budget


@pytest.mark.long
def test_a_type_checker_accepts_every_generated_tree(tmp_path: Path) -> None:
    seen: list[ToolSpec] = []

    @settings(max_examples=200, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(spec=SPECS)
    def collect(spec: ToolSpec) -> None:
        seen.append(spec)

    collect()
    for number in range(0, len(seen), 3):
        # As a catalog has them: no two by one identifier.
        specs = list({spec.python_name: spec for spec in seen[number : number + 3]}.values())
        folder = tmp_path / f"stubs_{number}"
        if number % 2 == 0:
            write_tree(specs, folder, body=calling_body, imports="async def call(arguments: Any) -> Any: ...")
        else:
            write_tree(specs, folder)
        (folder / "__init__.py").touch()

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--python-version=3.11", "--cache-dir=.cache",
         "--no-warn-return-any", "."],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
