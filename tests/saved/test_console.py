"""Saved programs in the console's API: saving the program of a run, testing it, and what models propose."""

from pathlib import Path

from tests.interfaces.console.served import served
from tests.saved.support import Tools, opened, ran, saved
from toolfold.interfaces.http.access.auth import Authenticator
from toolfold.interfaces.http.settings import Settings


async def test_the_program_of_a_run_is_saved_tested_and_called(tmp_path: Path) -> None:
    tools = Tools()
    async with opened(tmp_path, tools.all()) as runtime, served(runtime, runtime.executions.ledger) as console:
        outcome = await ran(runtime)
        path = f"executions/{outcome.execution_id}"
        proposed = (await console.get(f"{path}/parameters"))["parameters"]
        body = {"name": "report", "description": "Total.", "parameters": {"month": 3}}
        answer = await console.post(f"{path}/save", body)
        again = await console.post(f"{path}/save", {"name": "note"})
        tools.calls.clear()
        test = await console.post("programs/report/test", {})
        counted = len(tools.calls)
        page = await console.get("programs")
        nested = await ran(runtime, "await report(month=1)")
        events = (await console.get(f"executions/{nested.execution_id}"))["events"]

    assert proposed == [
        {"name": "month", "value": 3, "line": 1}, {"name": "department", "value": "sales", "line": 2},
    ]  # fmt: skip
    assert (answer.status_code, answer.json()["version"]) == (201, 1)
    assert (again.status_code, again.json()) == (409, {"error": "'note' is the name of a tool; choose another name"})
    assert (test.json(), counted) == ({"problems": []}, 0)
    assert [(one["name"], one["description"], one["problems"]) for one in page["programs"]] == [
        ("report", "Total.", [])
    ]
    assert [(one["id"], one["within"], one["line"]) for one in events if one["type"] == "replied"] == [
        (1, 0, 1), (2, 1, 2), (3, 1, 3),
    ]  # fmt: skip


async def test_a_proposal_is_called_by_nobody_until_it_is_accepted(tmp_path: Path) -> None:
    async with (
        opened(tmp_path, library={"models_may": "propose"}) as runtime,
        served(runtime, runtime.executions.ledger) as console,
    ):
        await ran(runtime)
        text = "await save_program(name='report', description='Total.', parameters={'month': 3})"
        said = await ran(runtime, text)
        before = await runtime.run("await report(month=1)")
        proposals = (await console.get("programs"))["proposals"]
        accepted = await console.post("programs/report/accept", {})
        after = await runtime.run("await report(month=1)")
        await ran(runtime, text.replace("report", "other").replace("3", "1"))
        rejected = await console.post("programs/other/reject", {})
        twice = await console.post("programs/other/reject", {})

    assert said.value == "'report' is proposed; it can be called once a person accepts it; parameters: month"
    assert (before.status, after.value) == ("rejected", {"total": 15})
    assert [one["name"] for one in proposals] == ["report"]
    assert (accepted.status_code, rejected.status_code, twice.status_code) == (200, 200, 409)


async def test_a_read_only_console_shows_programs_and_changes_none(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        program = await saved(runtime)
        async with served(runtime, runtime.executions.ledger, may_act=False) as console:
            page = await console.get("programs")
            answer = await console.post(f"programs/{program.name}/test", {})

    assert (page["may_act"], len(page["programs"]), answer.status_code) == (False, 1, 403)


async def test_a_tenant_sees_and_saves_its_own_beside_the_shared_ones(tmp_path: Path) -> None:
    auth = Authenticator(Settings(keys={"a": "key-a", "b": "key-b"}))
    async with opened(tmp_path) as runtime:
        await saved(runtime, "shared_one")
        own = await ran(runtime, tenant="a")
        async with served(runtime, runtime.executions.ledger, auth=auth, signs_in=False) as console:
            seen = {}
            for tenant in ("a", "b"):
                console.client.headers["x-api-key"] = f"key-{tenant}"
                answer = await console.post(f"executions/{own.execution_id}/save", {"name": "mine"})
                shadow = await console.post(f"executions/{own.execution_id}/save", {"name": "shared_one"})
                names = [one["name"] for one in (await console.get("programs"))["programs"]]
                seen[tenant] = (answer.status_code, shadow.status_code, names)

    assert seen == {"a": (201, 409, ["mine", "shared_one"]), "b": (404, 404, ["shared_one"])}
