"""A program becomes a tool at the page: a run is saved, tested and called, and a model's proposal is accepted."""

import pytest
from playwright.sync_api import Page, expect

from tests.console.browsing import given_browser, given_own, given_page  # noqa: F401
from tests.console.rig import CONFIG, Rig

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(name="own")
def given_saving(own: Rig) -> Rig:
    own.write("toolfold.yaml", f"{CONFIG}programs: {{models_may: propose}}\n")
    return own


def test_the_program_of_a_run_is_saved_and_another_program_calls_it(page: Page, own: Rig) -> None:
    own.run("number = await convert(text='12.5')\nprint(number)\nnumber * 2", "first.py").wait()
    page.locator(".run", has_text="convert").click()
    page.locator("#save").click()
    page.get_by_label("Name").fill("double")
    page.get_by_label("Description").fill("Twice a number.")
    page.get_by_label("Make text a parameter").check()
    page.get_by_role("button", name="Save").click()

    panel = page.locator(".program", has_text="double")
    expect(panel.locator(".signature").first).to_contain_text("double(*, text: str) -> float")
    panel.get_by_role("button", name="Test").click()
    expect(panel).to_contain_text("no tool was called")
    assert own.made == ["convert 12.5"]
    own.run("print(await double(text='3'))", "second.py").wait()
    assert own.made == ["convert 12.5", "convert 3"]
    page.get_by_role("link", name="Runs", exact=True).click()
    page.locator(".run", has_text="double").click()
    expect(page.locator(".call", has_text="↳ convert")).to_be_visible()


def test_a_proposal_of_a_model_is_accepted(page: Page, own: Rig) -> None:
    own.run("await convert(text='12.5')", "first.py").wait()
    own.run(
        "await save_program(name='converted', description='A number.', parameters={'text': '12.5'})", "save.py"
    ).wait()
    page.get_by_role("link", name="Programs", exact=True).click()
    panel = page.locator(".program", has_text="converted")
    expect(panel).to_contain_text("proposed")
    panel.get_by_role("button", name="Accept").click()
    expect(panel).to_contain_text("version 1")
    process = own.run("print(await converted(text='3'))", "third.py")
    assert process.stdout is not None
    assert process.stdout.read() == "3.0\n"
