"""A saved program at every interface: found by a search, called by programs and directly, under the config's policy."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults

import toolfold
from tests.interfaces.pydantic_ai.talk import Talk, calls, returns
from tests.interfaces.test_one_config import INTERFACES
from toolfold import programs
from toolfold.pydantic_ai import ConfigToolset

CONFIG = """
tools: {modules: [own.py]}
http: {keys: {acme: key-of-acme}, tools: {acme: ["*"]}, preload_data: false, files: files}
ledger: {where: ledger.db}
programs: {folders: [programs]}
"""
OWN = '''
def double(n: int) -> int:
    """Twice n."""
    return 2 * n
'''
CALLS = """\
found = [one["name"] for one in await search_tools("four times a number")]
print(await programs.quadruple(n=5), await quadruple(n=1), found[0])
"""


@pytest.fixture
async def config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "own.py").write_text(OWN)
    path = tmp_path / "toolfold.yaml"
    path.write_text(CONFIG)
    async with toolfold.from_config(path) as runtime:
        outcome = await runtime.run("await double(n=await double(n=3))")
        await programs.save(
            runtime, outcome.execution_id, "quadruple", description="Four times a number.", parameters={"n": 3}
        )
    return path


@pytest.mark.long
async def test_a_program_finds_and_calls_it_at_every_interface(config_file: Path) -> None:
    seen = {name: await interface(config_file, CALLS) for name, interface in INTERFACES.items()}

    assert {name: "20 4 quadruple" in said for name, said in seen.items()} == dict.fromkeys(INTERFACES, True), seen


@pytest.mark.long
async def test_a_caller_who_may_not_use_its_tool_is_not_offered_it_at_any_interface(config_file: Path) -> None:
    config_file.write_text(CONFIG.replace("[own.py]", "[own.py], block: [double]"))

    text = "print(await quadruple(n=30864197))"
    seen = {name: await interface(config_file, text) for name, interface in INTERFACES.items()}

    assert {name: "123456788" in said for name, said in seen.items()} == dict.fromkeys(INTERFACES, False), seen


@pytest.mark.long
async def test_it_is_called_directly_on_the_command_line(config_file: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "toolfold",
        "programs",
        "run",
        "quadruple",
        "--n",
        "7",
        "--config",
        str(config_file),
    ]

    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("28\n", "")


async def test_an_agent_of_pydantic_ai_calls_it_directly(config_file: Path) -> None:
    talk = Talk(calls(("quadruple", {"n": 2})), "done")

    result = await Agent(talk.model, toolsets=[ConfigToolset(config_file)]).run("go")

    assert returns(result.all_messages()) == [("success", 8)]


async def test_an_agent_is_asked_before_a_direct_call_of_a_program_whose_tool_asks(config_file: Path) -> None:
    config_file.write_text(CONFIG.replace("[own.py]", "[own.py], ask: [double]"))
    talk = Talk(calls(("quadruple", {"n": 2})), "done")
    agent = Agent(talk.model, toolsets=[ConfigToolset(config_file)], output_type=[str, DeferredToolRequests])

    result = await agent.run("go")
    assert isinstance(result.output, DeferredToolRequests)
    approved = DeferredToolResults(approvals={call.tool_call_id: True for call in result.output.approvals})
    later = await agent.run(message_history=result.all_messages(), deferred_tool_results=approved)

    assert [call.tool_name for call in result.output.approvals] == ["quadruple"]
    assert returns(later.all_messages()) == [("success", 8)]


@pytest.mark.long
async def test_a_model_proposes_over_http_and_its_tenant_calls_it_once_it_is_accepted(config_file: Path) -> None:
    config_file.write_text(CONFIG.replace("[programs]}", "[programs], models_may: propose}"))
    serve = INTERFACES["serve"]
    saving = "print(await save_program(name='octuple', description='Eight times.', parameters={'n': 3}))"

    ran = await serve(config_file, "print(await double(n=await quadruple(n=3)))")
    said = await serve(config_file, saving)
    before = await serve(config_file, "print(await octuple(n=12345678))")
    folders = programs.ProgramLibrary(config_file.parent / "programs")
    folders.accept("octuple", "acme")
    after = await serve(config_file, "print(await octuple(n=12345678))")

    assert (ran.strip(), said.strip()) == (
        "24", "'octuple' is proposed; it can be called once a person accepts it; parameters: n",
    )  # fmt: skip
    assert ("98765424" in before, after.strip()) == (False, "98765424")
    assert [program.name for program in folders.programs("other")] == ["quadruple"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run nothing", "no saved program 'nothing'"),
        ("run quadrupel", "no saved program 'quadrupel'; did you mean 'quadruple'?"),
        ("run quadruple --m 3", "'quadruple' has no option '--m'; its options: --n"),
        ("accept quadruple", "no proposed program 'quadruple'; 'toolfold programs list' shows what is proposed"),
        ("diff quadruple --version 9", "no saved program 'quadruple version 9'"),
        ("test --rerecord", "name the programs to record anew, as in 'toolfold programs test monthly_report --rerecord'"),
        ("save feed --name x", "no execution 'feed' in the ledger"),
    ],
)  # fmt: skip
async def test_a_command_with_bad_input_says_what_was_wrong_in_one_line(
    config_file: Path, command: str, message: str
) -> None:
    words = [sys.executable, "-m", "toolfold", "programs", *command.split()]

    done = await asyncio.to_thread(
        subprocess.run, words, cwd=config_file.parent, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr.startswith(f"toolfold: {message}"), done.stderr.count("\n")) == (
        2, "", True, 1,
    ), done.stderr  # fmt: skip
