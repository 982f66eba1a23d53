"""Pictures, sounds, links and files on their way through a program."""

from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent, BinaryImage, DocumentUrl, ImageUrl, ToolReturn
from pydantic_ai.messages import UserPromptPart

from tests.interfaces.pydantic_ai.talk import Run, Shared, Talk, program
from toolfold.pydantic_ai import CodeModeToolset, FunctionToolset

pytestmark = pytest.mark.asyncio(loop_scope="module")

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.fixture
def camera() -> FunctionToolset[Any]:
    toolset: FunctionToolset[Any] = FunctionToolset()

    @toolset.tool
    def photo() -> BinaryContent:
        return BinaryContent(PNG, media_type="image/png", identifier="front door")

    @toolset.tool
    def sound() -> BinaryContent:
        return BinaryContent(b"RIFF", media_type="audio/wav")

    @toolset.tool
    def album() -> dict[str, Any]:
        return {"cover": ImageUrl("https://example.com/a.png"), "notes": DocumentUrl("https://example.com/a.pdf")}

    @toolset.tool
    def described() -> Any:
        return ToolReturn(3, content=["three doors", BinaryContent(PNG, media_type="image/png")], metadata={"x": 1})

    return toolset


async def test_a_picture_that_is_returned_reaches_the_model_as_one(camera: FunctionToolset[Any], run: Run) -> None:
    outcome, content = await run(camera, "await photo()")

    assert (outcome, content) == ("success", BinaryImage(PNG, media_type="image/png"))
    assert content.identifier == "front door"


async def test_a_program_can_hold_and_look_at_a_picture(camera: FunctionToolset[Any], run: Run) -> None:
    text = "one = await photo()\nprint(one.mime, len(one.data))\n[one, 'beside', await sound()]"

    assert await run(camera, text) == (
        "success",
        [
            "image/png 264",
            BinaryImage(PNG, media_type="image/png"),
            "beside",
            BinaryContent(b"RIFF", media_type="audio/wav"),
        ],
    )


async def test_links_stay_links(camera: FunctionToolset[Any], run: Run) -> None:
    found = await run(camera, "a = await album()\n{'cover': a['cover'], 'notes': a['notes'], 'to': a['notes'].uri}")

    assert found == (
        "success",
        {
            "cover": ImageUrl("https://example.com/a.png"),
            "notes": DocumentUrl("https://example.com/a.pdf"),
            "to": "https://example.com/a.pdf",
        },
    )


async def test_what_a_tool_has_for_the_model_beside_its_value_goes_with_the_programs_answer(
    camera: FunctionToolset[Any], engine: Shared
) -> None:
    talk = Talk(program("await described() + await described()"), "done")

    result = await Agent(talk.model, toolsets=[CodeModeToolset(camera, engine=engine)]).run("go")

    returned, beside = result.all_messages()[2].parts
    assert returned.content == 6
    assert isinstance(beside, UserPromptPart)
    assert beside.content == ["three doors", BinaryContent(PNG, media_type="image/png")] * 2


async def test_files_are_named_and_pictures_among_them_shown(camera: FunctionToolset[Any], engine: Shared) -> None:
    text = "open('a.png', 'wb').write((await photo()).data)\nopen('b.txt', 'w').write('hi')\nprint('drawn')"
    talk = Talk(program(text), "done")

    result = await Agent(talk.model, toolsets=[CodeModeToolset(camera, engine=engine)]).run("go")

    returned, shown = result.all_messages()[2].parts
    assert returned.content == "drawn\nFiles made: a.png (264 bytes), b.txt (2 bytes)"
    assert isinstance(shown, UserPromptPart)
    assert shown.content == [BinaryImage(PNG, media_type="image/png")]
