"""Tenants: each has its own saved programs and the shared ones, and never another's."""

from pathlib import Path

import pytest

from tests.saved.support import Tools, opened, saved
from toolfold import programs
from toolfold.errors import UsageError
from toolfold.runtime import Runtime


async def seen_by(runtime: Runtime, tenant: str) -> tuple[str, object, object]:
    call = await runtime.run("await mine()", tenant=tenant)
    found = await runtime.run("[one['name'] for one in await search_tools('mine')]", tenant=tenant)
    by_attribute = await runtime.run("tools.programs.mine()", tenant=tenant)
    assert isinstance(found.value, list)
    return call.status, "mine" in found.value, by_attribute.value


async def test_a_tenants_program_is_there_for_that_tenant_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        await saved(runtime, "mine", "await note(text='a')\n'of a'", tenant="a")
        seen = {tenant: await seen_by(runtime, tenant) for tenant in ("a", "b", "", "A", "../a")}

    assert seen["a"] == ("finished", True, "of a")
    assert {seen[tenant] for tenant in ("b", "", "A", "../a")} == {("rejected", False, None)}


async def test_two_tenants_may_use_one_name_and_neither_takes_the_others(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        for tenant in ("a", "b"):
            await saved(runtime, "mine", f"await note(text='x')\n'of {tenant}'", tenant=tenant)
        values = {tenant: (await runtime.run("await mine()", tenant=tenant)).value for tenant in ("a", "b")}

    assert values == {"a": "of a", "b": "of b"}


async def test_a_tenant_cannot_shadow_a_shared_program_or_save_anothers_execution(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        await saved(runtime, "report")
        with pytest.raises(UsageError) as shadow:
            await saved(runtime, "report", tenant="a")
        foreign = await runtime.run("await note(text='x')", tenant="b")
        with pytest.raises(UsageError) as other:
            await programs.save(runtime, foreign.execution_id, "mine", tenant="a")
        shared = await runtime.run("await report()", tenant="a")

    assert str(shadow.value) == "'report' is the name of a shared program; choose another name"
    assert str(other.value).startswith(f"no execution '{foreign.execution_id}' in the ledger")
    assert shared.value == {"total": 35}


async def test_a_model_proposes_for_its_own_tenant(tmp_path: Path) -> None:
    tools = Tools()
    async with opened(tmp_path, tools.all(), library={"models_may": "propose"}) as runtime:
        for tenant in ("a", "b"):
            await runtime.run(f"await note(text='{tenant}')", tenant=tenant)
        said = await runtime.run("await save_program(name='mine', description='x')", tenant="a")
        library = runtime.catalog.programs
        assert isinstance(library, programs.ProgramLibrary)
        proposals = {tenant: library.proposals(tenant) for tenant in ("a", "b", "")}

    assert said.status == "finished", said.problem
    assert {tenant: [one.text for one in of] for tenant, of in proposals.items()} == {
        "a": ["await note(text='a')"], "b": [], "": [],
    }  # fmt: skip


@pytest.mark.parametrize(("models_may", "hints"), [("propose", [0, 1, 0]), ("nothing", [0, 0, 0])])
async def test_a_program_that_ran_twice_whatever_its_literals_earns_one_hint_where_saving_is_on(
    tmp_path: Path, models_may: str, hints: list[int]
) -> None:
    async with opened(tmp_path, library={"models_may": models_may}) as runtime:
        outcomes = [await runtime.run(f"await note(text='{text}')") for text in ("a", "b", "c")]

    assert [sum("save_program" in hint for hint in outcome.hints) for outcome in outcomes] == hints
