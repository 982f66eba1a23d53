"""What a release publishes, as far as it can be seen in seconds; `make test NAME=release` installs and runs it too."""

import re
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import yaml

import toolfold
from tests.release.build import ROOT, build, copy_tree, hashes, tracked_files

URL = "https://git.example/toolfold"
# The classes of attacks for which SECURITY.md has a promise or a disclaimer.
CLASSES = [
    "kernel and system calls", "host files", "network and parsing of hosts", "charsets and decompression",
    "secrets in replies and errors", "quotas and fairness between tenants", "schemas and documents from strangers",
    "what a person is shown when approving", "tokens and keys", "packages", "clusters",
]  # fmt: skip


def test_two_builds_have_one_hash_and_contain_the_tracked_files(tmp_path: Path) -> None:
    trees = [
        copy_tree(tmp_path / "one", modified=1_600_000_000, umask=0o022),
        copy_tree(tmp_path / "other", modified=1_700_000_000, umask=0o077),
    ]

    built = [build(sys.executable, tree, tmp_path / f"dist-{tree.name}") for tree in trees]

    assert hashes(built[0]) == hashes(built[1])
    with zipfile.ZipFile(built[0][0]) as wheel:
        packaged = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packaged == {name.removeprefix("src/") for name in tracked_files() if name.startswith("src/")}


def test_a_package_links_to_the_repository_that_built_it(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path / "tree", modified=1_600_000_000, umask=0o022)

    wheel, _ = build(sys.executable, tree, tmp_path / "dist", {"TOOLFOLD_REPOSITORY_URL": f"{URL}/"})

    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_string(archive.read(name).decode())
    assert metadata.get_all("Project-URL") == [
        f"Repository, {URL}",
        f"Issues, {URL}/issues",
        f"Documentation, {URL}/blob/v{toolfold.__version__}/docs",
        f"Changelog, {URL}/blob/v{toolfold.__version__}/CHANGELOG.md",
        f"Security, {URL}/blob/v{toolfold.__version__}/SECURITY.md",
    ]
    assert [link for link in re.findall(r"\]\(([^)]+)\)", metadata.get_payload()) if "://" not in link] == []


def test_the_security_page_has_a_promise_or_a_disclaimer_for_each_class() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")

    rows = re.findall(r"^\| ([^|]+) \| ([^|]{20,}) \| ([^|]{20,}) \|$", page, re.MULTILINE)

    assert [row[0] for row in rows] == CLASSES


def test_the_citation_has_the_version_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))

    assert citation["version"] == toolfold.__version__


def test_every_job_of_a_workflow_names_its_rights() -> None:
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))

    jobs = {
        f"{path.stem}.{name}": (document["permissions"], "permissions" in job)
        for path in workflows
        for document in [yaml.safe_load(path.read_text(encoding="utf-8"))]
        for name, job in document["jobs"].items()
    }

    names = ["image.image", "release.build", "release.notes", "release.publish"]
    assert jobs == dict.fromkeys(names, ({}, True))
