"""Hook of the documentation site: code blocks with words of our own, and links to files that are not pages.

Read by MkDocs (`mkdocs.yml`), which runs in an environment of its own. Its warnings make `make docs` fail.
"""

import logging
import os
import re
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#:]+)(#[^)]*)?\)")
BLOCK = re.compile(r"^( *)(`{3,}|~{3,})([\w+-]*)([^\n`]*)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^(?:[ >]|<p>)*(?:```|~~~)[^\n]*", re.MULTILINE)
CODE_OF_HTML = re.compile(r"<(pre|code)\b.*?</\1>", re.DOTALL)
log = logging.getLogger("mkdocs.hooks.site")


# Any: objects of MkDocs, which is not installed beside the package.
def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A link to a file of the repository that is not a page becomes its path."""

    def link(match: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(page.file.src_path), match[2]))
        return f"{match[1]} (`{os.path.normpath('docs/' + target)}`)" if target.startswith("..") else match[0]

    return BLOCK.sub(block_for_site, LINK.sub(link, markdown))


def block_for_site(match: re.Match[str]) -> str:
    """The block without the words that tests/test_docs.py reads; the name of its file becomes its title."""
    indent, fence, language, words, code = match.groups()
    name = re.search(r"\bfile=(\S+)", words)
    title = f' title="{name[1]}"' if name else ""
    return f"{indent}{fence}{language}{title}\n{code}{indent}{fence}"


# Any: as above.
def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Warn of a block that the site would show as text."""
    blocks, rendered = len(BLOCK.findall(page.markdown)), html.count('class="highlight"')
    raw = FENCE.search(BLOCK.sub("", page.markdown)) or FENCE.search(CODE_OF_HTML.sub("", html))
    if raw or rendered < blocks:
        reason = raw[0].strip() if raw else f"{rendered} of {blocks} blocks are rendered"
        log.warning("docs/%s: raw fence: %s", page.file.src_path, reason)
    return html
