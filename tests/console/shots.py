"""`make test NAME=console-shots`: every view in light and dark, at 1440 and at 390 pixels, for people to look at and for axe-core."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.console.rig import Rig, rig

EXAMPLE = Path("examples/console")
SHOTS = Path("build/console-shots")
AXE = Path("build/clients/axe/node_modules/axe-core/axe.min.js")
AUDIT = """() => axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations
  .map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`))"""
SIZES = {"1440": (1440, 900), "390": (390, 844)}


@pytest.mark.timeout(280)
def test_pictures_are_made(tmp_path: Path) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    with rig(tmp_path) as own, sync_playwright() as driver:
        shutil.copy(EXAMPLE / "shop.py", tmp_path / "shop.py")
        config = (EXAMPLE / "toolfold.yaml").read_text().replace("../../build/console-demo.sqlite", "ledger.sqlite")
        (tmp_path / "toolfold.yaml").write_text(config)
        _programs(own)
        browser = driver.chromium.launch(executable_path=os.environ["CHROMIUM"], args=["--no-sandbox"])
        context = browser.new_context()
        page = context.new_page()
        page.goto(own.open())
        faults: dict[str, list[str]] = {}
        expect(page.locator(".run")).to_have_count(6)
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            for size, (width, height) in SIZES.items():
                page.set_viewport_size({"width": width, "height": height})
                _views(page, f"{theme}-{size}", faults)
        browser.close()

    print(f"\n{len(faults)} pictures in {SHOTS}")
    if not AXE.exists():
        print("NOT RUN: axe-core is not there; the lines above say why")
    assert len(faults) >= 32
    for view, found in faults.items():
        for fault in found:
            print(f"{view}: {fault}")
    assert not any(faults.values())


def _programs(own: Rig) -> None:
    for name in ("small", "broken", "misspelt", "report"):
        own.run((EXAMPLE / "programs" / f"{name}.py").read_text(), f"{name}.py").wait()
    for name in ("refunds", "refunds"):
        process = own.run((EXAMPLE / "programs" / f"{name}.py").read_text(), f"{name}.py")
        with pytest.raises(subprocess.TimeoutExpired):  # it waits for a person
            process.wait(3)


def _views(page: Page, name: str, faults: dict[str, list[str]]) -> None:
    base = page.url.partition("#")[0]

    def look(view: str, *, whole: bool = False) -> None:
        page.screenshot(path=SHOTS / f"{view}-{name}.png", full_page=whole)
        faults[f"{view}-{name}"] = []
        if AXE.exists():
            # Through the debugger: the page's own policy forbids it to load a script.
            page.evaluate(AXE.read_text("utf-8"))
            faults[f"{view}-{name}"] = page.evaluate(AUDIT)

    page.goto(f"{base}#/runs")
    expect(page.locator(".run")).to_have_count(6)
    look("runs")
    runs = page.eval_on_selector_all(".run", "all => all.map((one) => [one.innerText, one.getAttribute('href')])")
    found = {word: next(link for text, link in runs if word in text) for word in ("Revenue", "Convert the", "Pay back")}
    for view, link in (("run", found["Revenue"]), ("failed", found["Convert the"]), ("waiting", found["Pay back"])):
        page.goto(f"{base}{link}")
        expect(page.locator("#call h2")).to_be_visible()
        look(view, whole=True)
    page.goto(f"{base}{found['Convert the']}/rerun")
    expect(page.locator("#check")).to_contain_text("no problems found")
    look("rerun")
    for view, shown in (("inbox", ".ask-row"), ("tools", ".tool"), ("savings", ".chart")):
        page.goto(f"{base}#/{view}")
        expect(page.locator(shown).first).to_be_visible()
        look(view)
