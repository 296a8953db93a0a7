"""Writes the tables of nicknames and legal forms that the pair model reads.

    pip install --target tables --no-deps cleanco==2.3 nicknames==1.0.1
    python examples/reproductions/known_names.py tables

The tables are data of two packages, written in the spelling that names are compared in. Neither
package is needed to run KBForge.
"""

from __future__ import annotations

import csv
import json
import re
import runpy
import sys
from importlib.resources import files
from itertools import chain
from pathlib import Path

from kbforge.texts.kinds import normalised, words_of
from kbforge_plugins.likelihoods.pairs.table import folded

_WITHIN = re.compile(r"\.|(?<=\b\w)/(?=\w\b)")
ORIGINS = [
    {
        "table": "legal forms",
        "from": "cleanco 2.3, https://github.com/psolin/cleanco",
        "licence": "MIT",
        "copyright": "Copyright (c) 2015 Paul Solin <paul@paulsolin.com>",
    },
    {
        "table": "nicknames",
        "from": "nicknames 1.0.1, https://github.com/carltonnorthern/nicknames",
        "licence": "Apache-2.0",
        "copyright": "Carlton Northern, Nick Crews and contributors",
    },
]


def legal_forms(packages: Path) -> list[str]:
    """The legal forms of all countries, ascending."""
    tables = runpy.run_path(str(packages / "cleanco" / "termdata.py"))
    written = chain(*tables["terms_by_type"].values(), *tables["terms_by_country"].values())
    return sorted({" ".join(words_of_form(folded(normalised(form)))) for form in written})


def words_of_form(form: str) -> list[str]:
    """The words of a folded legal form; words such as "s.a." and "a/s" stay whole."""
    return words_of(_WITHIN.sub("", form))


def nicknames(packages: Path) -> dict[str, list[str]]:
    """By given name, its nicknames, both ascending."""
    of_name: dict[str, set[str]] = {}
    with (packages / "nicknames" / "names.csv").open(encoding="utf-8", newline="") as rows:
        for row in csv.DictReader(rows):
            name, nickname = (folded(normalised(row[key])) for key in ("name1", "name2"))
            of_name.setdefault(name, set()).add(nickname)
    return {name: sorted(of_name[name]) for name in sorted(of_name)}


def main(packages: Path) -> None:
    """Write the tables of the packages in this folder."""
    tables = {
        "origins": ORIGINS,
        "legal forms": legal_forms(packages),
        "nicknames": nicknames(packages),
    }
    target = Path(str(files("kbforge_plugins.likelihoods.pairs"))) / "known.json"
    target.write_text(json.dumps(tables, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
