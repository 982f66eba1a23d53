"""`docs/api.md` is what `design/api.py` writes now, and has words for all that is public."""

from design.api import DOCUMENTED_FIELDS, PACKAGES, PAGE, api_page, public_names, undocumented


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == api_page(), "run 'python design/api.py'"


def test_every_public_name_has_a_docstring_and_so_has_every_field_of_the_values_that_people_read() -> None:
    assert DOCUMENTED_FIELDS == ("Outcome", "Limits", "CallRecord", "Policy")
    assert undocumented() == []


def test_every_public_name_has_a_heading() -> None:
    headings = {line.removeprefix("### ") for line in api_page().splitlines() if line.startswith("### ")}

    assert headings == {f"{package}.{name}" for package in PACKAGES for name in public_names(package)}
