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


def _pixels(name: str) -> str:
    return f"len(set(Image.open({name!r}).convert('RGB').getdata()))"


@pytest.mark.parametrize(
    "save",
    [
        "plt.savefig('later.png')",
        "plt.gcf().savefig('later.png')",
        "plt.tight_layout()\nfigure = plt.gcf()\nfigure.savefig('later.png')",
        "plt.show()\nplt.savefig('later.png')",
        "plt.savefig('first.png')\nplt.savefig('later.png')",
        "plt.plot([3, 1])\nplt.savefig('later.png')",
    ],
)
async def test_a_figure_can_be_saved_after_it_was_shown(save: str, runtime: Runtime) -> None:
    outcome = await runtime.run(
        f"from PIL import Image\n{PLOT}plt.plot([1, 2])\nplt.show()\n{save}\n{_pixels('later.png')} > 10"
    )

    assert (outcome.status, outcome.value, "figure_2.png" in [file.name for file in outcome.files]) == (
        "finished",
        True,
        False,
    )


async def test_the_figure_saved_after_several_were_shown_is_the_current_one(runtime: Runtime) -> None:
    draw = "plt.figure(2)\nplt.plot([1, 2], color='lime')\nplt.figure(1)\nplt.plot([1, 2], color='red')\n"
    outcome = await runtime.run(
        f"from PIL import Image\n{PLOT}plt.figure(1)\n{draw}plt.show()\nplt.savefig('later.png')\n"
        "colors = set(Image.open('later.png').convert('RGB').getdata())\n[(255, 0, 0) in colors, (0, 255, 0) in colors]"
    )

    assert outcome.value == [True, False]


@pytest.mark.parametrize("name", ["TkAgg", "Qt5Agg", "WebAgg", "nbAgg", "macosx", "GTK3Agg", "wxAgg"])
async def test_a_backend_that_needs_a_screen_is_agg(name: str, runtime: Runtime) -> None:
    outcome = await runtime.run(
        f"import matplotlib\nmatplotlib.use({name!r})\n{PLOT}plt.plot([1])\nplt.show()\nprint(matplotlib.get_backend())"
    )

    assert (outcome.status, outcome.stdout, type(outcome.value)) == ("finished", "agg\n", Media)


@pytest.mark.parametrize("isolation", ["namespace", "landlock"])
async def test_pillow_finds_fonts(isolation: str) -> None:
    names = ["DejaVuSans.ttf", "/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf", "DejaVuSansMono"]
    async with Runtime(engine="process", engine_options={"isolation": isolation}) as runtime:
        outcome = await runtime.run(
            f"from PIL import ImageFont\n[' '.join(ImageFont.truetype(name, 20).getname()) for name in {names}]"
        )

    assert outcome.value == ["DejaVu Sans Book", "DejaVu Sans Bold", "DejaVu Sans Mono Book"]


async def test_joblib_works_without_a_warning(runtime: Runtime) -> None:
    outcome = await runtime.run(
        "from joblib import Parallel, delayed\nParallel(n_jobs=2)(delayed(abs)(n) for n in [-1, 2])"
    )

    assert (outcome.value, outcome.stderr) == ([1, 2], "")
