"""Writes llms.txt into the built site: the pages in Markdown, with a sentence on each.

Language models read it (https://llmstxt.org). The pages stand beside it as they are written; a page
that is generated from docstrings has no text of its own, so its link leads to the built one.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent


def main(site: Path) -> None:
    """Copy the pages into the folder of the built site, and list them there."""
    settings = yaml.safe_load((HERE.parent / "mkdocs.yml").read_text(encoding="utf-8"))
    lines = [f"# {settings['site_name']}\n\n> {settings['site_description']}.\n"]
    for section, pages in _sections(settings["nav"]):
        lines.append(f"\n## {section}\n\n")
        for title, name in pages:
            text = (HERE / name).read_text(encoding="utf-8")
            target = name
            if re.search(r"^::: ", text, re.MULTILINE):
                target = f"{name.removesuffix('.md')}/"
            else:
                shutil.copyfile(HERE / name, site / name)
            lines.append(f"- [{title}]({target}): {_first_sentence(text)}\n")
    (site / "llms.txt").write_text("".join(lines), encoding="utf-8")


def _sections(nav: list[dict[str, Any]]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Title and pages of each section; pages outside of any come first."""
    entries = [entry for one in nav for entry in one.items()]
    yield "Start", [(title, page) for title, page in entries if isinstance(page, str)]
    for title, pages in entries:
        if not isinstance(pages, str):
            yield title, [entry for page in pages for entry in page.items()]


def _first_sentence(text: str) -> str:
    """The first sentence of the first paragraph, without its links; the page needs one."""
    bare = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    prose = next(p for p in bare.split("\n\n") if p.strip()[:1] not in ("", "#", "<", "!", "|"))
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(prose.split()))
    return re.split(r"(?<=[.:])\s", plain)[0].rstrip(":.") + "."


if __name__ == "__main__":
    main(Path(sys.argv[1]))
