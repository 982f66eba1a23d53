"""Hooks for every test: the timeout of tests that start something, and the list of what this machine could not prove."""

from collections.abc import Iterator
from typing import Any

import pytest

try:
    from hypothesis import HealthCheck, settings
except ModuleNotFoundError:  # in the environment of `make test NAME=gem`
    pass
else:
    # The same examples in every run, however busy the machine; `--hypothesis-profile=explore` tries others.
    slow = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("explore", **slow)
    settings.register_profile("tests", derandomize=True, **slow)
    settings.load_profile("tests")

_UNPROVEN = pytest.StashKey[list[str]]()
_STARTS_NOTHING = ("guest", "protocol", "tools")
"""Folders whose tests start no interpreter, guest or server: that alone can take 10 seconds on a busy machine."""


def toolfold_unproven(config: pytest.Config) -> list[str]:
    """Isolation layers that this machine could not prove; append one line for each."""
    return config.stash.setdefault(_UNPROVEN, [])


@pytest.fixture(scope="session")
def unproven(pytestconfig: pytest.Config) -> list[str]:
    """The same list, for tests: `unproven.append("landlock: this kernel has none")`."""
    return toolfold_unproven(pytestconfig)


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests that record executions must not write into the state folder of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_quick = item.path.parent.name in _STARTS_NOTHING and not item.get_closest_marker("long")
        if not is_quick and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(120))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker of pytest-xdist could not prove, told to the process that prints the list."""
    toolfold_unproven(node.config).extend(getattr(node, "workeroutput", {}).get("unproven", ()))


# Outermost, because pytest prints its own last line from within this hook: ours come after it.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    if hasattr(session.config, "workeroutput"):
        # Before the other hooks: a worker hands this over in one of them.
        session.config.workeroutput["unproven"] = toolfold_unproven(session.config)
    yield
    if hasattr(session.config, "workeroutput"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or session.config.option.collectonly:
        return
    lines = list(dict.fromkeys(toolfold_unproven(session.config)))
    if not lines:
        reporter.write_line("isolation: no test met a layer that it could not prove here")
        return
    reporter.write_line(f"isolation: {len(lines)} not proven on this machine", red=True, bold=True)
    for line in lines:
        reporter.write_line(f"  NOT PROVEN {line}", red=True)
