"""Make the quickstart data: people, places and organisations as a newsroom archive might see them.

Everything is invented (a few places are real) and drawn with a fixed seed, so running this file
again writes the same bytes:

    python examples/quickstart/generate.py

It writes, beside itself,

- `mentions.csv`     the raw input of the demo, one row a mention, with the gold label;
- `fragments.jsonl`  the same mentions as canonical fragments, with their documents as sources and
                     the dates of these in the metadata;
- `meanings.csv`     which entity the values of these mentions mean, by its gold label;
- `train.jsonl`      labelled mentions of other entities, to train and calibrate on;
- `practice.jsonl`   labelled mentions of more entities, to learn how far to trust a confidence.

The data are ambiguous on purpose. Names come as typos, initials, surnames, inversions and former
names; several entities share a name; and six mentions in ten are a name and nothing else. Most
employers, birthplaces and headquarters are entities of the same file, in any of their spellings. A
document often mentions these beside what it says of them, and then writes them alike.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import TypeAlias

SEED = 20_240_611
COLUMNS = (
    "name", "occupation", "born", "birthplace", "employer", "country", "region", "industry",
    "headquarters", "founded",
)  # fmt: skip
SEPARATOR = "|"
NAME_ONLY = 0.6
OUTSIDE = 0.2  # of the employers, birthplaces and headquarters: not entities of the file
BESIDE = 0.6  # of those that are: mentioned in the same document
IN_TURN = ("employer",)  # facts that hold one after another
FIRST_DAY, DAYS = date(2015, 1, 1), 1826
SOURCES = ("wire", "gazette", "minutes", "ledger")


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES = words(
    "Maren Tobias Ines Callum Priya Anselm Odette Ruben Sunniva Mateus Leonie Ewan Zofia Hamish "
    "Yasmin Lucian Greta Ambrose Noor Felix Tamsin Idris Beatrix Soren Mirela Joaquin Petra Alban "
    "Selma Dorian"
)
MONTHS = words("January February March April May June July August September October November")
OCCUPATIONS = (
    "botanist", "novelist", "midfielder", "judge", "engineer", "cellist", "surgeon", "mayor",
    "photographer", "historian", "rower", "architect",
)  # fmt: skip
COUNTRIES = (
    "Norway", "United States", "Portugal", "Kenya", "Poland", "Scotland", "Chile", "Canada",
)  # fmt: skip
CITIES = (
    "Bergen", "Tucson", "Porto", "Nakuru", "Gdynia", "Dundee", "Valdivia", "Halifax", "Tromso",
    "Boise", "Coimbra", "Lublin",
)  # fmt: skip
STATES = (
    "New Mexico", "Oregon", "Montana", "Ohio", "Georgia", "Alberta", "Silesia", "Algarve",
)  # fmt: skip
INDUSTRIES = (
    "shipping", "publishing", "optics", "brewing", "insurance", "forestry", "broadcasting",
)  # fmt: skip
ORGANISATION_ENDINGS = (
    "Instruments", "Shipping Company", "Press", "Brewery", "Institute", "Mutual", "Football Club",
    "Broadcasting", "Foundation", "Timber",
)  # fmt: skip
PLACE_ENDINGS = ("County", "Lake", "Island", "Valley", "Park", "Castle")


@dataclass(frozen=True)
class World:
    """One set of entities: the surnames and stems that its names are built from."""

    label: str
    surnames: tuple[str, ...]
    stems: tuple[str, ...]
    shared_places: tuple[tuple[str, tuple[str, str], str], ...]
    people: int
    places: int
    organisations: int


DEMO = World(
    label="Q",
    surnames=words(
        "Tollefsby Osgrove Harrowmere Brannagh-Lisle Quillfeather Vasterling Dunmarrow Ezkerra "
        "Pellingham Strandvik Ockendyke Marchetto Wrennick Abayani Corsellane Hjelmsund "
        "Tavistone Zelinskaya Fairloch Mbarekwa Druskin Almendra Kettlewyn Szarowska Lindqvarn "
        "Roszkiewy Undermoor Castelnova Bjarnholt Penhallick Adeyombo Gruffudd-Pryce Iwanczuk "
        "Sotomarra Thwaitely Nordhaug Yarborne Peixeira Caldecroft Ojukweni"
    ),
    stems=words(
        "Veltrane Halden Ostrava-Lind Greywether Calderfield Morvenna Saltmarsh Thornaby "
        "Eskerdale Wolverine-Hay Pinecrest Lanternhill Marisco Dovrehavn Sandoval Kestrelford "
        "Upper-Finch Jutewick Redoubt Camborough Ivelsea Zennor-Quay Blackthorn Montague Oxbow "
        "Farringay Hexley Ludovica Nettlebed Quayside Rushmere Sybarra Tarnwick Umbria-Nova "
        "Wyvern Yellowknap Ashgrove Bellweather Cinderford Drumlin"
    ),
    shared_places=(
        ("Curry County", ("New Mexico", "Oregon"), "United States"),
        ("Jefferson County", ("Montana", "Ohio"), "United States"),
        ("Clear Lake", ("Oregon", "Alberta"), "Canada"),
    ),
    people=58,
    places=30,
    organisations=32,
)
TRAIN = World(
    label="T",
    surnames=words(
        "Ravnskov Hollingberry Castrovine Meerdink Okonjolo Featherstall Lysgaard Varzeano "
        "Trebinski Whitlocke Sandomirz Gullbrandt Ardmaine Perrivale Nakashiro Wexcombe "
        "Dragomirel Finsterwald Achterbosch Morangelo Kilbrannan Sotheryn Jaspersen Umbertide "
        "Velazcorta Oyelarinde Birkenshaw Tavaresco Lundgreve Cwiklinska Montrechet Hathersedge "
        "Eskildrup Muthonyi Barrowclough Zamorrano Prendervast Kovalenchik"
    ),
    stems=words(
        "Brackenridge Solvane Northquay Ferrowby Kingsmoor Altamira-West Copperfell Rosenhavn "
        "Tidewater Amberley Stonegarth Quarrington Belmora Fjordane Gallowglen Haverstoke "
        "Ironbridge-Ley Juniper Knapdale Larkspur Mossbank Ninefields Oakhanger Pelican "
        "Ravelston Silverthread Tumbleweed Vinterskov Westmarch Zephyr Arkengarth Birchholt"
    ),
    shared_places=(
        ("Monroe County", ("Georgia", "Ohio"), "United States"),
        ("Long Island", ("Alberta", "Oregon"), "Canada"),
    ),
    people=54,
    places=24,
    organisations=26,
)


def invented(seed: int, count: int) -> tuple[str, ...]:
    """Different names of three syllables."""
    random = Random(seed)
    names: dict[str, None] = {}
    while len(names) < count:
        names["".join(random.choice(part) for part in SYLLABLES)] = None
    return tuple(names)


SYLLABLES = (
    words(
        "Ra Hol Cas Meer O Fea Lys Var Tre Whit San Gull Ard Per Na Wex Dra Fin Ach Mo Kil So Jas "
        "Um Ve Oy Bir Ta Lun Cwi Mon Ha Es Mu Bar Za Pren Ko Bel Quen"
    ),
    words(
        "vns ling tro ding konj ther sga zea bins loc domi bran mai ri kash com gomi ster terbo "
        "ran per ber laz lar ken vare dgre klin tre"
    ),
    words(
        "kov berry vine dink olo stall ard no ski ke rz dt ne vale iro be rel wald sch gelo nan "
        "yn sen tide orta inde shaw sco ve ska chet sedge"
    ),
)
# The shares of people, places, organisations and shared names are those of the demo.
PRACTICE = World(
    label="P",
    surnames=invented(1, 100),
    stems=invented(2, 100),
    shared_places=(
        ("Adams County", ("Ohio", "Oregon"), "United States"),
        ("Lincoln County", ("Montana", "Georgia"), "United States"),
        ("Grand Island", ("Oregon", "Alberta"), "Canada"),
        ("Round Lake", ("Alberta", "Montana"), "Canada"),
        ("Green Valley", ("Ohio", "New Mexico"), "United States"),
        ("Eagle Park", ("Georgia", "Oregon"), "United States"),
        ("Mirror Lake", ("Alberta", "Ohio"), "Canada"),
    ),
    people=145,
    places=75,
    organisations=80,
)


WORLDS = {"DEMO": DEMO, "TRAIN": TRAIN, "PRACTICE": PRACTICE}


@dataclass(frozen=True)
class Thing:
    """One entity: its label, the ways it is written with their weights, and its facts."""

    label: str
    spellings: dict[str, float]
    facts: dict[str, tuple[Fact, ...]]

    def __str__(self) -> str:
        """Its full name."""
        return next(iter(self.spellings))


Fact: TypeAlias = str | Thing


@dataclass
class Mention:
    """One fragment in the making: when it was written, from 0 to 1, and the labels of the things
    that its values mean, by attribute."""

    label: str
    time: float
    properties: dict[str, list[str]]
    means: dict[str, str] = field(default_factory=dict)
    date: str = ""
    source: str = ""
    id: str = ""


def inside(random: Random, things: Sequence[Thing], outside: str) -> Fact:
    """One of the things; now and then what is outside the file."""
    return outside if random.random() < OUTSIDE else random.choice(things)


def person(
    random: Random, label: str, name: str, places: Sequence[Thing], employers: Sequence[Thing]
) -> Thing:
    first, last = name.split(" ", 1)
    middle = random.choice("ABCDEFGHJKLMNPRST")
    spellings = {
        name: 0.52,
        f"{first[0]}. {last}": 0.12,
        last: 0.10,
        f"{last}, {first}": 0.08,
        f"{first} {middle}. {last}": 0.10,
        f"Dr {name}" if random.random() < 0.4 else f"{name} Jr.": 0.08,
    }
    country = random.choice(COUNTRIES)
    born = f"{random.randrange(1, 29)} {random.choice(MONTHS)} {random.randrange(1921, 1999)}"
    facts: dict[str, tuple[Fact, ...]] = {
        "occupation": tuple(random.sample(OCCUPATIONS, random.choice((1, 1, 2)))),
        "born": (born, born.rsplit(" ", 1)[1]),
        "birthplace": (inside(random, places, random.choice(CITIES)),),
        "country": (country,),
        "employer": tuple(
            inside(random, employers, f"University of {random.choice(CITIES)}")
            for _ in range(random.choice((1, 1, 2)))
        ),
    }
    return Thing(label, spellings, facts)


def place(random: Random, label: str, name: str, region: str, country: str) -> Thing:
    short = name.rsplit(" ", 1)[0]
    spellings = {name: 0.7, f"{name}, {region}": 0.15, f"the {name}": 0.08, short: 0.07}
    return Thing(label, spellings, {"country": (country,), "region": (region,)})


def organisation(random: Random, label: str, name: str, places: Sequence[Thing]) -> Thing:
    stem, ending = name.split(" ", 1)
    spellings = {
        name: 0.55,
        f"{name} Ltd": 0.15,
        stem: 0.10,
        f"The {name}": 0.10,
        f"{stem} {ending.split()[0][:4]}.": 0.10,
    }
    facts: dict[str, tuple[Fact, ...]] = {
        "industry": (random.choice(INDUSTRIES),),
        "headquarters": (inside(random, places, random.choice(CITIES)),),
        "founded": (str(random.randrange(1820, 1995)),),
        "country": (random.choice(COUNTRIES),),
    }
    return Thing(label, spellings, facts)


def entities(random: Random, world: World) -> list[Thing]:
    """All entities of a world."""
    labels = (f"{world.label}{number:03d}" for number in count(1))
    places = [
        place(random, next(labels), name, region, country)
        for name, regions, country in world.shared_places
        for region in regions
    ]
    stems = fresh_then_shared(random, world.stems)
    while len(places) < world.places:
        name = f"{next(stems)} {random.choice(PLACE_ENDINGS)}"
        region, country = random.choice(STATES), random.choice(COUNTRIES)
        places.append(place(random, next(labels), name, region, country))
    organisations = [
        organisation(
            random, next(labels), f"{next(stems)} {random.choice(ORGANISATION_ENDINGS)}", places
        )
        for _ in range(world.organisations)
    ]
    people = [
        person(random, next(labels), name, places, organisations)
        for name in person_names(random, world)
    ]
    return [*places, *organisations, *people]


def fresh_then_shared(random: Random, pool: tuple[str, ...]) -> Iterator[str]:
    """The members of a pool in random order; later members may be repeated now and then."""
    used: list[str] = []
    for fresh in random.sample(pool, len(pool)):
        used.append(fresh)
        yield fresh
        if random.random() < 0.35:
            yield random.choice(used)
    while True:
        yield random.choice(used)


def person_names(random: Random, world: World) -> list[str]:
    """Full names; now and then a namesake, more often a relative."""
    surnames = fresh_then_shared(random, world.surnames)
    names: list[str] = []
    while len(names) < world.people:
        if names and random.random() < 0.1:
            names.append(random.choice(names))
        else:
            names.append(f"{random.choice(FIRST_NAMES)} {next(surnames)}")
    return names


def typo(random: Random, text: str) -> str:
    """One slip of the finger inside a word."""
    at = random.randrange(1, len(text) - 1)
    kind = random.randrange(4)
    if kind == 0:
        return text[:at] + text[at + 1 :]
    if kind == 1:
        return text[:at] + text[at] + text[at:]
    if kind == 2:
        return text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    return text[:at] + random.choice("aeinorst") + text[at + 1 :]


def spelt(random: Random, thing: Thing) -> str:
    """Its name in one of the spellings; now and then with a typo."""
    (name,) = random.choices(list(thing.spellings), list(thing.spellings.values()))
    return typo(random, name) if random.random() < 0.12 else name


def mention(random: Random, thing: Thing) -> Mention:
    """One observation of an entity."""
    names = [spelt(random, thing)]
    if random.random() < 0.08:  # a document that uses two forms
        (other,) = random.choices(list(thing.spellings), list(thing.spellings.values()))
        names = list(dict.fromkeys([*names, other]))
    made = Mention(thing.label, random.random(), {"name": names})
    if random.random() >= NAME_ONLY:
        count = min(len(thing.facts), random.choice((1, 2, 2, 3)))
        for attribute in sorted(random.sample(sorted(thing.facts), count)):
            state(random, made, attribute, thing.facts[attribute])
    return made


def state(random: Random, made: Mention, attribute: str, facts: Sequence[Fact]) -> None:
    """Add one of the facts to a mention: any, or the one that holds at the time."""
    at = made.time if attribute in IN_TURN else random.random()
    fact = facts[int(at * len(facts))]
    if isinstance(fact, Thing):
        made.means[attribute] = fact.label
        fact = spelt(random, fact)
    made.properties[attribute] = [fact]


def mentions(random: Random, world: World) -> list[Mention]:
    """All mentions of a world's entities, in documents, by time."""
    out = []
    for thing in entities(random, world):
        # skewed: about a quarter of the entities are seen once, a few often
        size = 1 if random.random() < 0.25 else min(18, 2 + int(random.expovariate(0.25)))
        out += [mention(random, thing) for _ in range(size)]
    waiting = sorted(out, key=lambda item: item.time)
    out, document, number, day = [], 0, 0, ""
    while waiting:
        if number == 0 or random.random() < 0.4:
            document, number = document + 1, 0
            day = str(FIRST_DAY + timedelta(int(waiting[0].time * DAYS)))
        told = [waiting.pop(0)]
        for item in told:
            number += 1
            item.date, item.source = day, f"{SOURCES[document % len(SOURCES)]}/{document:03d}"
            item.id = f"{item.source}#{number}"
            told += beside(random, item, waiting)
        out += told
    return out


def beside(random: Random, item: Mention, waiting: list[Mention]) -> Iterator[Mention]:
    """Take those that a mention's values mean from the later ones, and let it write them alike."""
    for attribute, label in item.means.items():
        if random.random() < BESIDE:
            at = next((at for at, other in enumerate(waiting) if other.label == label), None)
            if at is not None:
                item.properties[attribute] = waiting[at].properties["name"][:1]
                yield waiting.pop(at)


def as_jsonl(items: list[Mention]) -> bytes:
    lines = []
    for m in items:
        one = {"id": m.id, "properties": m.properties, "label": m.label, "source": m.source}
        one["metadata"] = {"date": m.date}
        lines.append(json.dumps(one, ensure_ascii=False, separators=(",", ":")))
    return ("\n".join(lines) + "\n").encode()


def as_csv(head: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(head)
    table.writerows(rows)
    return out.getvalue().encode()


def table(items: list[Mention]) -> bytes:
    """A row for each mention."""
    rows = (
        [m.id, m.label, *(SEPARATOR.join(m.properties.get(column, ())) for column in COLUMNS)]
        for m in items
    )
    return as_csv(("id", "label", *COLUMNS), rows)


def meanings(items: list[Mention]) -> bytes:
    """A row for each value that means an entity of the file."""
    rows = (
        [m.id, attribute, *m.properties[attribute], label]
        for m in items
        for attribute, label in m.means.items()
    )
    return as_csv(("id", "attribute", "value", "label"), rows)


def random_of(world: str) -> Random:
    """What the entities and then the mentions of a world are drawn with."""
    return Random(SEED + list(WORLDS).index(world))


def made(world: str) -> list[Mention]:
    """The mentions of the world of that name, as in its file."""
    return mentions(random_of(world), WORLDS[world])


def files() -> dict[str, bytes]:
    """File name -> content."""
    demo, train, practice = map(made, WORLDS)
    return {
        "mentions.csv": table(demo),
        "fragments.jsonl": as_jsonl(demo),
        "meanings.csv": meanings(demo),
        "train.jsonl": as_jsonl(train),
        "practice.jsonl": as_jsonl(practice),
    }


def main(folder: Path) -> None:
    for name, content in files().items():
        (folder / name).write_bytes(content)
        print(f"{folder / name}: {content.count(10):,} lines")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
