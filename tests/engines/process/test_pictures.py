"""Figures that a program shows, or leaves open, come back as pictures."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from toolfold.models import Media
from toolfold.runtime import Runtime

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(engine="process") as runtime:
        yield runtime


PLOT = "import matplotlib.pyplot as plt\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (PLOT + "plt.plot([1, 2])\nplt.show()", 1),
        (PLOT + "plt.plot([1, 2])\nplt.title('t')", 1),
        (PLOT + "plt.plot([1, 2])", 1),
        (PLOT + "plt.bar(['a', 'b'], [1, 2])", 1),
        (PLOT + "plt.hist([1, 2, 2])", 1),
        (PLOT + "fig, ax = plt.subplots()\nax.plot([1])\nfig", 1),
        (PLOT + "fig, ax = plt.subplots()\nax", 1),
        ("pd.DataFrame({'a': [1, 2]}).plot()", 1),
        (PLOT + "for n in (1, 2):\n    plt.figure()\n    plt.plot([n])\n    plt.show()", 2),
        (PLOT + "fig, ax = plt.subplots()\ndisplay(fig)\nplt.figure()\nx = plt.plot([2])", 2),
        ("from PIL import Image\nImage.new('RGB', (2, 2))", 1),
        (PLOT + "plt.plot([1])\nplt.savefig('a.png')", 1),
    ],
)
async def test_a_figure_comes_back_as_a_picture(text: str, count: int, runtime: Runtime) -> None:
    outcome = await runtime.run(text)

    assert (outcome.status, outcome.stderr) == ("finished", "")
    pictures = outcome.value if count > 1 else [outcome.value]
    if "savefig" in text:
        assert ([file.name for file in outcome.files], outcome.value) == (["a.png"], None)
    else:
        assert [(type(one), one.mime, one.data[:4]) for one in pictures] == [(Media, "image/png", b"\x89PNG")] * count


async def test_pictures_beside_a_value_are_files(runtime: Runtime) -> None:
    outcome = await runtime.run(PLOT + "plt.plot([1, 2])\nplt.show()\n{'rows': 2}")

    assert (outcome.value, [file.name for file in outcome.files]) == ({"rows": 2}, ["figure_1.png"])


async def test_libraries_find_no_shell(runtime: Runtime) -> None:
    outcome = await runtime.run(
        "import IPython\nfrom IPython import get_ipython\n[get_ipython(), IPython.version_info[0]]"
    )

    assert outcome.value == [None, 8]
