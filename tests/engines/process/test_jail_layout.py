"""Which paths go into the jail, and under which names."""

import sys
from pathlib import Path

from toolfold.engines.process import jail_layout

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"


def test_a_guest_with_its_own_tree_hears_of_neutral_paths_only() -> None:
    places = jail_layout.jailed()

    assert places.arguments[0] == "/py/bin/python3"
    assert places.environment["PYTHONHOME"] == "/py"
    assert all(path.startswith("/py/site") for path in places.sys_path)
    assert {target.split("/")[1] for _, target in places.binds} <= {"py", "usr", "lib", "lib64", "lib32", "etc", "nix"}


def test_only_the_guest_package_goes_in_not_the_host_beside_it() -> None:
    targets = {target: source for source, target in jail_layout.jailed().binds}

    assert [target for target in targets if target.startswith("/py/guest")] == ["/py/guest/toolfold_guest"]
    assert targets["/py/guest/toolfold_guest"].endswith("/toolfold_guest")


def test_packages_of_the_base_installation_are_hidden() -> None:
    assert f"/py/{sys.platlibdir}/{VERSION}/site-packages" in jail_layout.jailed().hidden


def test_in_place_nothing_is_mounted_and_temp_files_have_one_folder() -> None:
    places = jail_layout.in_place("/some/folder")

    assert (places.binds, places.copies, places.hidden) == ((), (), ())
    assert {str(Path(path).parent) for _, path in places.links} <= {
        "/some/folder/share",
        "/some/folder/site",
        "/some/folder/site/mpl_toolkits",
    }
    assert {places.environment[name] for name in ("HOME", "TMPDIR")} == {"/some/folder"}
