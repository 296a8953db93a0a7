"""Families of labelled data, and files resampled from them.

A family is one kind of data from one origin. Models that ship are judged on families left out: the
model for a family has seen none of its files, nor those of two or three others. A resampled file
has 150 to 600 fragments of one file of the family. It varies by what decides how hard a file is:
how many entities it has, how alike they are, how large they are, how many are seen once, which
attributes are there, and how many slips of the pen. Ids are new, so that they say nothing about the
labels.

The family "generated" is of made-up people, organisations and products, from word lists and a seed.
Entities are drawn so that some are hard to tell apart: people who share a name, branches of one
organisation, models of one product line. A fragment shows one form of the name and some of the
attributes. Forms are those that real files have: initials, surname first, acronyms, short forms,
slips of the pen, titles with words left out. The family "catalogues" is of offers of made-up
products (`kbforge_lab.training.defaults.catalogues`).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge.files.fragments import read_fragments
from kbforge_lab.training.defaults.catalogues import LINES, catalogue, words

GENERATED, CATALOGUES = "generated", "catalogues"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


_GIVEN = words(
    "Ada Adam Agnes Ahmed Aiko Alan Alba Ali Amara Ana Andrew Anita Anna Antonio Astrid Beatrice "
    "Ben Boris Carla Carlos Chen Clara Daniel David Diego Elena Elif Emma Erik Eva Fatima Felix "
    "Fiona George Grace Hana Hannah Helen Henry Hugo Ida Igor Ines Ivan Jack James Jan Jane Javier "
    "John Jonas Joseph Julia Karim Kate Kofi Lara Lars Laura Leila Leo Lin Lucas Luis Maria Mark "
    "Martha Mary Mei Michael Mina Mohamed Nadia Nina Noah Olga Omar Oscar Paul Peter Priya Rahul "
    "Robert Rosa Ruth Sam Sara Sofia Stefan Susan Thomas Tom Uma Vera Victor Wei William Yuki Zoe"
)
_FAMILY = words(
    "Abbott Adler Ahmadi Almeida Anderson Baker Banerjee Bauer Becker Bennett Berg Bianchi Blake "
    "Bose Brown Carter Castro Chang Clarke Cohen Costa Cruz Dahl Davies Diaz Dubois Eriksen Evans "
    "Fischer Fontaine Foster Garcia Gill Gomez Green Gupta Haas Hall Hansen Hassan Hill Hoffmann "
    "Hughes Ito Ivanov Jackson Jensen Johnson Jones Kaplan Kaya Keller Khan Kim Klein Kovacs Kumar "
    "Lang Larsen Lee Lewis Li Lopez Marin Martin Mendes Meyer Miller Moore Moreau Mori Murphy "
    "Nakamura Nguyen Nilsson Novak Okafor Olsen Osman Park Patel Perez Petrov Quinn Ramos Reed "
    "Rossi Sanders Sato Schmidt Silva Singh Smith Sokolov Stein Suzuki Tanaka Taylor Torres Usman "
    "Varga Walker Wang Weber White Wilson Wong Wright Yilmaz Young Zhang Ziegler"
)
_PLACES = words(
    "Alden Arles Ashford Avila Basel Bergen Brest Bristol Cadiz Calder Como Cork Delft Derby Dover "
    "Elgin Essen Fargo Genoa Ghent Graz Halden Hilo Jena Kiel Kobe Lagos Leeds Lima Linz Lund Lyon "
    "Malmo Metz Minsk Mesa Nara Nice Oban Oslo Padua Perth Porto Quito Reims Riga Salem Siena "
    "Split Tampa Tartu Truro Turin Ulm Utica Varna Vigo Waco York Zug"
)
_WORK = words(
    "accountant actor architect baker carpenter chemist clerk composer dentist driver editor "
    "engineer farmer historian journalist judge lawyer librarian mathematician merchant miner "
    "musician nurse painter photographer physician pilot poet politician priest sailor sculptor "
    "soldier surgeon tailor teacher translator writer"
)
_SECTORS = words(
    "Agricultural Analytics Aviation Banking Biology Cancer Chemical Climate Coffee Construction "
    "Data Dental Design Electric Energy Engineering Food Forest Freight Genetics Glass Health "
    "Heritage Housing Insurance Law Logistics Marine Materials Media Medical Mining Motor Music "
    "Optical Paper Physics Port Rail Robotics Security Shipping Software Solar Steel Technology "
    "Textile Tourism Trading Transport Water"
)
_BODIES = words(
    "Agency Association Bank Board Bureau Center Club College Company Council Federation Fund "
    "Group Holdings Hospital Institute Laboratory Library Museum Network Partners School Services "
    "Society Systems Trust Union University Works"
)
_LEGAL = ("Ltd", "Inc", "GmbH", "AG", "LLC", "plc", "SA", "Co")
_BRANDS = words(
    "Acorix Altano Belmar Bravex Caldor Cintra Dynora Elcom Fentix Gladio Halcon Inova Jarvik "
    "Kestrel Lumora Maxtor Nordik Optima Pavo Quanta Rotek Solara Tandem Ultrex Ventor Wexel Xanto "
    "Yorvik Zentra"
)
_GOODS = words(
    "adapter backpack battery blender camera case charger cable drill fan freezer guitar "
    "headphones heater helmet iron kettle keyboard lamp laptop lens microphone monitor mouse oven "
    "phone printer projector radio router scanner speaker stand tablet television toaster tripod "
    "vacuum watch"
)
_QUALITIES = words(
    "black white silver red blue wireless portable digital compact professional stainless steel "
    "rechargeable waterproof dual slim heavy duty with remote for home office travel kit pack set "
    "series edition refurbished 2-pack bundle"
)


@dataclass(frozen=True, slots=True)
class _MadeEntity:
    """What is true of one made-up entity: its forms of name, likely first, and its attributes."""

    forms: tuple[str, ...]
    attributes: Mapping[str, str]


def slip(text: str, rng: random.Random) -> str:
    """A text with one slip of the pen: a letter dropped, doubled, replaced, or two exchanged."""
    if len(text) < 3:
        return text
    at = rng.randrange(len(text) - 1)
    kind = rng.randrange(4)
    if kind == 0:
        return text[:at] + text[at + 1 :]
    if kind == 1:
        return text[:at] + text[at] + text[at:]
    if kind == 2:
        return text[:at] + rng.choice(_LETTERS) + text[at + 1 :]
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def generated_files(count: int, seed: int) -> Iterator[tuple[str, tuple[Fragment, ...]]]:
    """(name, fragments) of made-up files, people, organisations and products by turns."""
    kinds: tuple[tuple[str, Callable[[random.Random, int], list[_MadeEntity]]], ...] = (
        ("people", _people),
        ("organisations", _organisations),
        ("products", _made_products),
    )
    for number in range(count):
        kind, entities = kinds[number % len(kinds)]
        rng = random.Random(f"{GENERATED}/{seed}/{number}")
        yield f"{kind}-{seed}-{number}", _file(kind, entities, rng)


def _file(
    kind: str, entities: Callable[[random.Random, int], list[_MadeEntity]], rng: random.Random
) -> tuple[Fragment, ...]:
    size = round(_FEWEST * (_MOST / _FEWEST) ** rng.random())
    mean = rng.choice((1.1, 1.5, 2.0, 3.0, 6.0))
    seen = rng.choice((0.0, 0.3, 0.6, 0.9, 1.0))
    first_form, slips = rng.uniform(0.4, 1.0), rng.choice((0.0, 0.02, 0.1, 0.25))
    rows: list[tuple[str, dict[str, tuple[str, ...]]]] = []
    for number, entity in enumerate(entities(rng, size)):
        # a geometric number of fragments an entity
        members = 1
        while rng.random() > 1 / mean:
            members += 1
        for _ in range(members):
            rows.append((f"e{number}", _observe(entity, rng, seen, first_form, slips)))
        if len(rows) >= size:
            break
    rng.shuffle(rows)
    return tuple(
        Fragment(f"{kind[0]}{place}", properties, label=label)
        for place, (label, properties) in enumerate(rows)
    )


def _observe(
    entity: _MadeEntity, rng: random.Random, seen: float, first_form: float, slips: float
) -> dict[str, tuple[str, ...]]:
    form = entity.forms[0] if rng.random() < first_form else rng.choice(entity.forms)
    values = {"name": form}
    values |= {key: value for key, value in entity.attributes.items() if rng.random() < seen}
    return {
        key: (slip(value, rng) if rng.random() < slips else value,) for key, value in values.items()
    }


def _people(rng: random.Random, count: int) -> list[_MadeEntity]:
    """People; the fewer names there are, the more bear the same."""
    few = rng.choice((1.0, 0.5, 0.15))
    given = rng.sample(_GIVEN, max(6, round(few * len(_GIVEN))))
    family = rng.sample(_FAMILY, max(10, round(few * len(_FAMILY))))
    found = []
    for _ in range(count):
        one, middle, last = rng.choice(given), rng.choice(_GIVEN), rng.choice(family)
        forms = [f"{one} {last}", f"{last}, {one}", f"{one[0]}. {last}", last]
        if rng.random() < 0.3:
            forms += [f"{one} {middle} {last}", f"{one} {middle[0]}. {last}"]
        born = f"{rng.randint(1900, 2005)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        place = rng.choice(_PLACES)
        attributes = {
            "date of birth": born if rng.random() < 0.7 else born[:4],
            "occupation": rng.choice(_WORK),
            "city": place,
            "postcode": f"{_PLACES.index(place) + 10}{rng.randint(0, 9)}{rng.randint(0, 9)}",
            "email": f"{one.lower()}.{last.lower()}{rng.randint(1, 99)}@{rng.choice(_BRANDS)}.org",
        }
        found.append(_MadeEntity(tuple(forms), attributes))
    return found


def _organisations(rng: random.Random, count: int) -> list[_MadeEntity]:
    """Organisations and their branches: a branch shares all words but the place."""
    places = rng.sample(_PLACES, rng.choice((8, 20, 55)))
    found: list[_MadeEntity] = []
    while len(found) < count:
        head, sector, body = rng.choice(places + _FAMILY), rng.choice(_SECTORS), rng.choice(_BODIES)
        founded = str(rng.randint(1850, 2020))
        branches = rng.choice((1, 1, 1, 2, 4))
        for place in rng.sample(places, branches):
            words = [head, sector, body] if branches == 1 else [head, sector, body, place]
            legal = rng.choice(_LEGAL)
            forms = (
                " ".join(words),
                " ".join([*words, legal]),
                "".join(word[0] for word in words),
                " ".join(words[:2]),
                f"{body} of {sector}, {head}" if branches == 1 else f"{head} {body} {place}",
                " ".join(words).upper(),
            )
            attributes = {
                "city": place,
                "type": body.lower(),
                "founded": founded,
                "website": f"{''.join(words).lower()}.com",
                "sector": sector.lower(),
            }
            found.append(_MadeEntity(forms, attributes))
    return found


def _made_products(rng: random.Random, count: int) -> list[_MadeEntity]:
    """Products of lines: siblings share brand, line, kind of goods and often the price."""
    brands = rng.sample(_BRANDS, rng.choice((3, 8, 25)))
    found: list[_MadeEntity] = []
    while len(found) < count:
        brand, line, goods = rng.choice(brands), rng.choice(LINES), rng.choice(_GOODS)
        stem, price = rng.choice("ABCDEFGHKLMNPRSTVWX") + line[0].upper(), rng.randint(9, 900)
        for _ in range(rng.choice((1, 2, 4, 8))):
            model = f"{stem}{rng.randint(100, 9999)}"
            words = rng.sample(_QUALITIES, 4)
            forms = (
                f"{brand} {line} {goods} {model} {' '.join(words)}",
                f"{brand} {goods} {' '.join(words[:2])} - {model}",
                f"{brand} {line} {goods} {' '.join(words[1:])}",
                f"{brand} {model} {line} {goods}",
                f"{goods} {brand} {model[:2]}-{model[2:]} {words[0]}",
            )
            attributes = {
                "brand": brand,
                "model": model,
                "price": f"{price + rng.choice((0, 0, 10, 50))}.{rng.choice(('00', '95', '99'))}",
                "category": goods,
            }
            found.append(_MadeEntity(forms, attributes))
    return found


_FEWEST, _MOST = 150, 600
_LARGEST_CLUSTER = 40
_MOST_BEARERS = 300
_MOST_NEIGHBOURS = 12


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of data from one origin."""

    name: str
    files: tuple[str, ...]  # below the folder of all data; none for a made-up family
    ships: bool  # whether what ships may be trained on it


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """Labelled fragments with unique ids that count as one file."""

    family: str
    name: str
    fragments: tuple[Fragment, ...]


def _products(*names: str) -> tuple[str, ...]:
    return tuple(f"products_biblio/{name}.jsonl" for name in names)


FAMILIES = (
    Family(
        "febrl",
        (
            *(f"more/febrl/febrl{number}.jsonl" for number in (1, 2, 3)),
            "more/febrl/febrl4.jsonl.gz",
        ),
        ships=True,
    ),
    Family(
        "splink",
        ("splink_hist50k/historical_50k.jsonl.gz", "more/splink_fake1000/fake_1000.jsonl"),
        ships=True,
    ),
    Family("rldata", ("rldata/rldata500.jsonl", "rldata/rldata10000.jsonl"), ships=False),
    Family("chadwick", ("chadwick/chadwick_10k.jsonl.gz",), ships=True),
    Family("restaurant", ("restaurant/restaurant_864.jsonl",), ships=True),
    Family("papers", ("cora/cora_1879.jsonl", *_products("dblp_acm")), ships=True),
    Family("products", _products("abt_buy", "amazon_google", "walmart_amazon"), ships=True),
    Family("cddb", ("cddb/cddb_9763.jsonl",), ships=True),
    Family("inspire", ("more/inspire_wang/inspire_wang.jsonl.gz",), ships=True),
    Family("ecbplus", ("more/ecbplus/ecbplus.jsonl",), ships=True),
    Family("mhercl", ("more/mhercl/mhercl.jsonl",), ships=True),
    Family("conel22", ("more/conel22/conel22.jsonl",), ships=True),
    # gum's share-alike half is measured, never trained on, so it is in no family
    Family("fair_el", ("more/fair_el/fair_el.jsonl", "more/gum/gum_ccby.jsonl"), ships=True),
    Family("ror", ("more/ror/ror.jsonl.gz",), ships=True),
    Family("nsi_brands", ("more/nsi_brands/nsi_brands.jsonl.gz",), ships=True),
    Family("artists", ("more/artists/artists_nga.jsonl.gz",), ships=True),
    Family("places_ne", ("more/places_ne/places_ne.jsonl.gz",), ships=True),
    Family(
        "syriaca",
        ("more/syriaca/syriaca_places.jsonl", "more/syriaca/syriaca_persons.jsonl"),
        ships=True,
    ),
    Family(
        "wd",
        tuple(f"confusable/wd{n}_{half}.jsonl" for n in (50, 200) for half in ("train", "dev")),
        ships=False,
    ),
    Family(
        "dwie",
        (
            "dwie/dwie_public_traindev.jsonl",
            *(f"confusable/dwie{n}_{half}.jsonl" for n in (50, 100) for half in ("train", "dev")),
        ),
        ships=False,
    ),
    Family("webnlg", ("webnlg/webnlg_1text_per_entry.jsonl.gz",), ships=False),
    Family(GENERATED, (), ships=True),
    Family(CATALOGUES, (), ships=True),
)
"""Every family; a family's place in the list decides nothing."""


_FOLDS = 6


def fold_of(name: str) -> tuple[str, ...]:
    """The families that a model leaves out together with this one: three or four that ship.

    So six models judge all families, and none has seen a family that it judges. A family that
    never trains what ships is left out by every model; one that is not listed is left out alone.
    """
    ships = [family.name for family in FAMILIES if family.ships and family.files]
    folds = [tuple(ships[start::_FOLDS]) for start in range(_FOLDS)]
    folds[0] = (*folds[0], GENERATED, CATALOGUES)
    alone = () if any(family.name == name for family in FAMILIES) else (name,)
    return next((fold for fold in folds if name in fold), alone)


def family_named(name: str) -> Family:
    """The family of this name."""
    for family in FAMILIES:
        if family.name == name:
            return family
    known = ", ".join(family.name for family in FAMILIES)
    raise UsageError(f'family: expected one of {known}, got "{name}"')


def resampled(root: Path, family: Family, count: int, seed: int) -> Iterator[LabelledFile]:
    """Files drawn from a family; each depends on the family, the seed and its number alone."""
    if family.name == GENERATED:
        yield from generated(count, seed)
    else:
        yield from _drawn(root, family, count, seed, "", (_FEWEST, _MOST))


def large(root: Path, family: Family, count: int, seed: int) -> Iterator[LabelledFile]:
    """Files as in `resampled`, of 700 to 2400 fragments if the family's files have so many."""
    yield from _drawn(root, family, count, seed, "large", (700, 2400))


def vast(root: Path, family: Family, count: int, seed: int) -> Iterator[LabelledFile]:
    """Files as in `resampled`, of up to 20,000 fragments, if the family's files have 3,000."""
    for file in _drawn(root, family, count, seed, "vast", _VAST):
        if len(file.fragments) >= _VAST[0]:
            yield file


_VAST = 3_000, 20_000  # fragments


def _drawn(
    root: Path, family: Family, count: int, seed: int, kind: str, sizes: tuple[int, int]
) -> Iterator[LabelledFile]:
    if family.name == GENERATED:  # its files are small
        return
    fewest, most = sizes
    for number in range(count):
        path = family.files[number % len(family.files)] if family.files else family.name
        stem = Path(path).name.split(".")[0]
        rng = random.Random(f"{kind}{kind and '/'}{family.name}/{seed}/{number}")
        size = round(fewest * (most / fewest) ** rng.random())
        name = f"{kind}{kind and '-'}{stem}-{seed}-{number}"
        if family.name == CATALOGUES:
            yield LabelledFile(family.name, name, catalogue(number, rng, size))
        else:
            yield LabelledFile(family.name, name, _draw(_clusters(root / path), rng, size))


def generated(count: int, seed: int) -> Iterator[LabelledFile]:
    """Made-up people, organisations and products: the family "generated"."""
    for name, fragments in generated_files(count, seed):
        yield LabelledFile(GENERATED, name, fragments)


def whole(root: Path, family: Family, most: int | None = None) -> Iterator[LabelledFile]:
    """A family's files as they are, in their own order and with their own ids."""
    for path in family.files:
        fragments = tuple(_name_first(f) for f in read_fragments(str(root / path)))
        if most is None or len(fragments) <= most:
            yield LabelledFile(family.name, Path(path).name.split(".")[0], fragments)


@lru_cache(maxsize=2)
def _clusters(path: Path) -> Mapping[str, tuple[Fragment, ...]]:
    """Gold clusters of a file, in order of first appearance; fragments without a label left out."""
    found: dict[str, list[Fragment]] = defaultdict(list)
    for fragment in read_fragments(str(path)):
        if fragment.label is not None:
            found[fragment.label].append(fragment)
    return {label: tuple(members) for label, members in found.items()}


def _draw(
    clusters: Mapping[str, Sequence[Fragment]], rng: random.Random, size: int
) -> tuple[Fragment, ...]:
    cap = min(rng.choice((2, 4, size, size)), max(_LARGEST_CLUSTER, size // 5))
    singletons = rng.choice((0.0, 0.0, 0.0, 0.3, 0.6, 0.9))
    alone = rng.choice((1.0, 1.0, 0.5, 0.1))
    drawn: list[Fragment] = []
    for label in _entities(clusters, rng):
        members = clusters[label]
        if len(members) == 1 and rng.random() > alone:
            continue
        most = 1 if rng.random() < singletons else cap
        drawn += members if len(members) <= most else rng.sample(list(members), most)
        if len(drawn) >= size:
            break
    rng.shuffle(drawn)
    seen = _attributes_seen(drawn, rng)
    slips = rng.choice((0.0, 0.0, 0.0, rng.uniform(0.02, 0.2)))
    named = rng.random() < 0.67
    return tuple(
        replace(
            f,
            id=f"f{number}",
            properties=_with_slips(_observed(_joined(f) if named else f, seen, rng), slips, rng),
            source=None,
            metadata=None,
        )
        for number, f in enumerate(map(_name_first, drawn))
    )


def _entities(clusters: Mapping[str, Sequence[Fragment]], rng: random.Random) -> Iterator[str]:
    """Every label once: uniformly, or with those that share a name or a word next to each other."""
    labels = sorted(clusters)
    rng.shuffle(labels)
    mode = rng.choice(("uniform", "words", "words", "namesakes", "mixed"))
    if mode == "uniform":
        yield from labels
        return
    bearers = _NameBearers(clusters, labels, whole_names=mode == "namesakes")
    if mode == "namesakes":  # those with namesakes first
        labels.sort(key=lambda label: not any(len(b) > 1 for b in bearers.of(label)))
    done: set[str] = set()
    most = rng.randint(2, _MOST_NEIGHBOURS)
    for label in labels:
        if label in done:
            continue
        done.add(label)
        yield label
        if mode == "mixed" and rng.random() < 0.5:
            continue
        # rare words first: their bearers are the ones that can be confused
        near = [
            other
            for bearing in sorted(bearers.of(label), key=len)
            for other in bearing
            if other not in done
        ]
        for other in list(dict.fromkeys(near))[:most]:
            done.add(other)
            yield other


class _NameBearers:
    """Which entities bear a word, or a whole name."""

    def __init__(
        self,
        clusters: Mapping[str, Sequence[Fragment]],
        labels: Sequence[str],
        whole_names: bool,
    ) -> None:
        self._words = {
            label: tuple(
                dict.fromkeys(
                    word
                    for fragment in clusters[label]
                    for name in _joined(fragment).names
                    for word in ([name.casefold()] if whole_names else name.casefold().split())
                )
            )
            for label in labels
        }
        self._bearers: dict[str, list[str]] = defaultdict(list)
        for label in labels:
            for word in self._words[label]:
                self._bearers[word].append(label)

    def of(self, label: str) -> list[list[str]]:
        """The bearers of each word of an entity; of words that all bear, none."""
        found = (self._bearers[word] for word in self._words[label])
        return [bearing for bearing in found if len(bearing) <= _MOST_BEARERS]


def _name_first(fragment: Fragment) -> Fragment:
    """The fragment with `name` as its first attribute, if it has one."""
    if "name" not in fragment.properties:
        return fragment
    rest = {key: values for key, values in fragment.properties.items() if key != "name"}
    return replace(fragment, properties={"name": fragment.names, **rest})


def _joined(fragment: Fragment) -> Fragment:
    """The fragment with a name of its `first_name` and `surname`, where it has no name."""
    properties = dict(fragment.properties)
    if "name" in properties:
        return fragment
    parts = [properties.pop(key)[0] for key in ("first_name", "surname") if key in properties]
    if not parts:
        return fragment
    return replace(fragment, properties={"name": (" ".join(parts),), **properties})


def _attributes_seen(fragments: Sequence[Fragment], rng: random.Random) -> dict[str, float]:
    """How often each attribute other than the name is kept: all, some of them, or none."""
    counts = Counter(key for f in fragments for key in f.properties if key != "name")
    mode = rng.choice(("all", "all", "all", "some", "some", "names"))
    if mode == "all":
        return dict.fromkeys(counts, 1.0)
    if mode == "names":
        return dict.fromkeys(counts, 0.0)
    kept, each = rng.uniform(0.3, 0.9), rng.uniform(0.4, 1.0)
    return {key: each if rng.random() < kept else 0.0 for key in sorted(counts)}


def _observed(
    fragment: Fragment, seen: Mapping[str, float], rng: random.Random
) -> dict[str, tuple[str, ...]]:
    """What is kept of a fragment's properties: at least its name, or its first attribute."""
    names = {"name", "first_name", "surname"}
    kept = {
        key: values
        for key, values in fragment.properties.items()
        if key in names or rng.random() < seen.get(key, 1.0)
    }
    return kept or dict([next(iter(fragment.properties.items()))])


def _with_slips(
    properties: dict[str, tuple[str, ...]], rate: float, rng: random.Random
) -> dict[str, tuple[str, ...]]:
    """Slips of the pen in a share of the values."""
    if not rate:
        return properties
    return {
        key: tuple(slip(value, rng) if rng.random() < rate else value for value in values)
        for key, values in properties.items()
    }
