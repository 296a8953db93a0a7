"""Made-up files for the judge: people with records, and bare names."""

from pathlib import Path

from kbforge.contracts import Fragment
from kbforge.files.fragments import read_fragments


def made(name: str) -> list[Fragment]:
    """One of the files beside this module: people, many_people or organisations."""
    return list(read_fragments(str(Path(__file__).with_name(f"{name}.jsonl"))))
