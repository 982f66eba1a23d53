"""Metadata hook of the build: links of the package to the repository that builds it.

The address is `TOOLFOLD_REPOSITORY_URL`, which the release workflow sets. Without it the package has no links, and
links in its README stay relative.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#)(?P<path>[^)\s]+)\)")


class RepositoryLinks(MetadataHookInterface):
    """README and URLs, both with whole addresses where the repository is known."""

    # Any: the metadata has a type of its own for each key.
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("TOOLFOLD_REPOSITORY_URL", "").rstrip("/")
        metadata["urls"] = {}
        if repository:
            tag = f"v{metadata['version']}"
            text = _LINK.sub(lambda link: _whole_link(link, repository, tag), text)
            pages = {"Documentation": "docs", "Changelog": "CHANGELOG.md", "Security": "SECURITY.md"}
            metadata["urls"] = {"Repository": repository, "Issues": f"{repository}/issues"} | {
                name: f"{repository}/blob/{tag}/{path}" for name, path in pages.items()
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def _whole_link(link: re.Match[str], repository: str, tag: str) -> str:
    kind = "raw" if link["image"] else "blob"
    return f"{link['image']}[{link['text']}]({repository}/{kind}/{tag}/{link['path']})"
