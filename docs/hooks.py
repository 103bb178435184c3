"""Links from the pages to files of the repository outside docs/, for mkdocs.

On the site such a file is not there, so its path is shown in place of a link. A link to a file that does not exist is
left alone, and the strict build fails on it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)#]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Show the paths of repository files."""
    folder = (ROOT / "docs" / page.file.src_path).parent

    def shown(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if not target.exists() or target.is_relative_to(ROOT / "docs"):
            return link[0]
        path = target.relative_to(ROOT).as_posix()
        return f"`{path}`" if link[1].strip("`") in path else f"{link[1]} (`{path}`)"

    return _LINK.sub(shown, markdown)
