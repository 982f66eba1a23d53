"""Hook of the documentation site: links to files that are not pages.

Read by MkDocs (`mkdocs.yml`), which runs in an environment of its own.
"""

import os
import re
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#:]+)(#[^)]*)?\)")


# Any: objects of MkDocs, which is not installed beside the package.
def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A link to a file of the repository that is not a page becomes its path."""

    def kept(match: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(page.file.src_path), match[2]))
        return f"{match[1]} (`{os.path.normpath('docs/' + target)}`)" if target.startswith("..") else match[0]

    return LINK.sub(kept, markdown)
