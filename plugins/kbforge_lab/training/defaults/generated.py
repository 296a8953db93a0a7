"""Made-up people, organisations and products with gold labels, from word lists and a seed.

Entities are drawn so that some are hard to tell apart: people who share a name, branches of one
organisation, models of one product line. A fragment shows one form of the name and some of the
attributes. Forms are those that real files have: initials, surname first, acronyms, short forms,
slips of the pen, titles with words left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kbforge.contracts import Fragment

GENERATED = "generated"
_FEWEST, _MOST = 150, 600
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _words(text: str) -> list[str]:
    return text.split()


_GIVEN = _words(
    "Ada Adam Agnes Ahmed Aiko Alan Alba Ali Amara Ana Andrew Anita Anna Antonio Astrid Beatrice "
    "Ben Boris Carla Carlos Chen Clara Daniel David Diego Elena Elif Emma Erik Eva Fatima Felix "
    "Fiona George Grace Hana Hannah Helen Henry Hugo Ida Igor Ines Ivan Jack James Jan Jane Javier "
    "John Jonas Joseph Julia Karim Kate Kofi Lara Lars Laura Leila Leo Lin Lucas Luis Maria Mark "
    "Martha Mary Mei Michael Mina Mohamed Nadia Nina Noah Olga Omar Oscar Paul Peter Priya Rahul "
    "Robert Rosa Ruth Sam Sara Sofia Stefan Susan Thomas Tom Uma Vera Victor Wei William Yuki Zoe"
)
_FAMILY = _words(
    "Abbott Adler Ahmadi Almeida Anderson Baker Banerjee Bauer Becker Bennett Berg Bianchi Blake "
    "Bose Brown Carter Castro Chang Clarke Cohen Costa Cruz Dahl Davies Diaz Dubois Eriksen Evans "
    "Fischer Fontaine Foster Garcia Gill Gomez Green Gupta Haas Hall Hansen Hassan Hill Hoffmann "
    "Hughes Ito Ivanov Jackson Jensen Johnson Jones Kaplan Kaya Keller Khan Kim Klein Kovacs Kumar "
    "Lang Larsen Lee Lewis Li Lopez Marin Martin Mendes Meyer Miller Moore Moreau Mori Murphy "
    "Nakamura Nguyen Nilsson Novak Okafor Olsen Osman Park Patel Perez Petrov Quinn Ramos Reed "
    "Rossi Sanders Sato Schmidt Silva Singh Smith Sokolov Stein Suzuki Tanaka Taylor Torres Usman "
    "Varga Walker Wang Weber White Wilson Wong Wright Yilmaz Young Zhang Ziegler"
)
_PLACES = _words(
    "Alden Arles Ashford Avila Basel Bergen Brest Bristol Cadiz Calder Como Cork Delft Derby Dover "
    "Elgin Essen Fargo Genoa Ghent Graz Halden Hilo Jena Kiel Kobe Lagos Leeds Lima Linz Lund Lyon "
    "Malmo Metz Minsk Mesa Nara Nice Oban Oslo Padua Perth Porto Quito Reims Riga Salem Siena "
    "Split Tampa Tartu Truro Turin Ulm Utica Varna Vigo Waco York Zug"
)
_WORK = _words(
    "accountant actor architect baker carpenter chemist clerk composer dentist driver editor "
    "engineer farmer historian journalist judge lawyer librarian mathematician merchant miner "
    "musician nurse painter photographer physician pilot poet politician priest sailor sculptor "
    "soldier surgeon tailor teacher translator writer"
)
_SECTORS = _words(
    "Agricultural Analytics Aviation Banking Biology Cancer Chemical Climate Coffee Construction "
    "Data Dental Design Electric Energy Engineering Food Forest Freight Genetics Glass Health "
    "Heritage Housing Insurance Law Logistics Marine Materials Media Medical Mining Motor Music "
    "Optical Paper Physics Port Rail Robotics Security Shipping Software Solar Steel Technology "
    "Textile Tourism Trading Transport Water"
)
_BODIES = _words(
    "Agency Association Bank Board Bureau Center Club College Company Council Federation Fund "
    "Group Holdings Hospital Institute Laboratory Library Museum Network Partners School Services "
    "Society Systems Trust Union University Works"
)
_LEGAL = ("Ltd", "Inc", "GmbH", "AG", "LLC", "plc", "SA", "Co")
_BRANDS = _words(
    "Acorix Altano Belmar Bravex Caldor Cintra Dynora Elcom Fentix Gladio Halcon Inova Jarvik "
    "Kestrel Lumora Maxtor Nordik Optima Pavo Quanta Rotek Solara Tandem Ultrex Ventor Wexel Xanto "
    "Yorvik Zentra"
)
_LINES = _words("Air Core Duo Edge Flex Go Lite Max Mini Neo One Plus Prime Pro Pulse Studio Ultra")
_GOODS = _words(
    "adapter backpack battery blender camera case charger cable drill fan freezer guitar "
    "headphones heater helmet iron kettle keyboard lamp laptop lens microphone monitor mouse oven "
    "phone printer projector radio router scanner speaker stand tablet television toaster tripod "
    "vacuum watch"
)
_QUALITIES = _words(
    "black white silver red blue wireless portable digital compact professional stainless steel "
    "rechargeable waterproof dual slim heavy duty with remote for home office travel kit pack set "
    "series edition refurbished 2-pack bundle"
)


@dataclass(frozen=True, slots=True)
class _Entity:
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
    kinds: tuple[tuple[str, Callable[[random.Random, int], list[_Entity]]], ...] = (
        ("people", _people),
        ("organisations", _organisations),
        ("products", _products),
    )
    for number in range(count):
        kind, entities = kinds[number % len(kinds)]
        rng = random.Random(f"{GENERATED}/{seed}/{number}")
        yield f"{kind}-{seed}-{number}", _file(kind, entities, rng)


def _file(
    kind: str, entities: Callable[[random.Random, int], list[_Entity]], rng: random.Random
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
    entity: _Entity, rng: random.Random, seen: float, first_form: float, slips: float
) -> dict[str, tuple[str, ...]]:
    form = entity.forms[0] if rng.random() < first_form else rng.choice(entity.forms)
    values = {"name": form}
    values |= {key: value for key, value in entity.attributes.items() if rng.random() < seen}
    return {
        key: (slip(value, rng) if rng.random() < slips else value,) for key, value in values.items()
    }


def _people(rng: random.Random, count: int) -> list[_Entity]:
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
        found.append(_Entity(tuple(forms), attributes))
    return found


def _organisations(rng: random.Random, count: int) -> list[_Entity]:
    """Organisations and their branches: a branch shares all words but the place."""
    places = rng.sample(_PLACES, rng.choice((8, 20, 55)))
    found: list[_Entity] = []
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
            found.append(_Entity(forms, attributes))
    return found


def _products(rng: random.Random, count: int) -> list[_Entity]:
    """Products of lines: siblings share brand, line, kind of goods and often the price."""
    brands = rng.sample(_BRANDS, rng.choice((3, 8, 25)))
    found: list[_Entity] = []
    while len(found) < count:
        brand, line, goods = rng.choice(brands), rng.choice(_LINES), rng.choice(_GOODS)
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
            found.append(_Entity(forms, attributes))
    return found
