"""Made-up catalogues: products in many variants, each offered by a few shops in its own words.

Products of one line share brand, goods and features. They differ in what a buyer chooses (colour,
length, capacity, edition ...) and in their codes, which may be a few characters apart. A shop
orders the parts of a title by a template, leaves some out, abbreviates others, and shows some
attributes. So two offers of one product may have little in common, and those of two variants nearly
everything. Most products are offered once.

Brands and the words of lines are made of syllables; the rest is from short lists.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kbforge.contracts import Fragment

Offer = dict[str, tuple[str, ...]]


def words(text: str) -> list[str]:
    """The words of a list."""
    return text.split()


def _phrases(text: str) -> list[str]:
    return text.split("|")


_SYLLABLES = words(
    "ac al an ar ba be bo ca ce co da de di do el en er fa fi fo ga ge go ha he ho in is jo ka ke "
    "ki la le li lo ma me mi mo na ne no ol on or pa pe pi po qua ra re ri ro sa se si so ta te "
    "ti to ul un va ve vi vo wa xe yo za ze"
)
LINES = words("Air Core Duo Edge Flex Go Lite Max Mini Neo One Plus Prime Pro Pulse Studio Ultra")
_GOODS = _phrases(
    "Patch Cable|Laser Toner Cartridge|Ink Cartridge|Digital Camera|Camera Case|Notebook Sleeve|"
    "Notebook|LCD Monitor|LCD HDTV|Wireless Mouse|Optical Mouse|Wireless Keyboard|"
    "Projector Screen|Projector Lamp|Wall Mount|Memory Card|USB Flash Drive|Hard Drive|"
    "External Hard Drive|Headphones|Bluetooth Headset|Car Speaker|Subwoofer|Amplifier|AV Receiver|"
    "DVD Player|GPS Navigator|Power Adapter|Battery|Surge Protector|Network Switch|"
    "Wireless Router|Printer|All-in-One Printer|Photo Paper|Label Tape|File Folder|Desk Organizer|"
    "Shredder|Laminator|Refrigerator|Freezer|Dishwasher|Gas Range|Electric Range|Microwave Oven|"
    "Washer|Dryer|Vacuum Cleaner|Coffee Maker|Toaster|Blender|Iron|Air Conditioner|Air Purifier|"
    "Heater|Fan|Drill|Circular Saw|Tool Set|Flashlight|Backpack|Tripod|Lens|Filter|Binoculars|"
    "Telescope|Watch|Game Controller|Speaker Dock|Phone Case|Screen Protector|Charging Cable|"
    "HDMI Cable|Video Cable|Audio Cable|Antenna|Remote Control|Microphone|Scanner|Web Camera|"
    "Security Camera|Cordless Phone|Answering Machine|Clock Radio|Turntable|Guitar|Keyboard Stand|"
    "Helmet|Tent|Sleeping Bag|Boots|Jacket|Shirt|Perfume|Shampoo|Pet Food|Coffee Beans|Tea Bags|"
    "Puzzle|Board Game|Doll"
)
_PROGRAMS = _phrases(
    "Photo Editor|Antivirus|Internet Security|Tax Software|Accounting|Payroll|Office Suite|"
    "Video Studio|Page Designer|Typing Tutor|Language Course|Encyclopedia|Road Atlas|Chess|"
    "Racing Game|Strategy Game|Music Studio|Backup|Disk Utility|Web Builder|CAD|Font Collection|"
    "Clip Art|Genealogy|Dictionary|Reading Course|Math Course"
)
_FEATURES = words(
    "Compact Portable Digital Professional Premium Deluxe Classic Ultra Slim Heavy-Duty Standard "
    "High-Speed Stainless Steel Rechargeable Waterproof Adjustable Universal Dual Mini Full-Size "
    "Home Office Travel Energy-Saving Quiet Snagless Shielded Leather Neoprene Ergonomic "
    "Programmable Cordless Indoor Outdoor"
)
_REMARKS = _phrases(
    "New|with Remote|Refurbished|Retail|Brand New|OEM|Value Pack|for PC|- Free Shipping|Kit|"
    "Includes Case|Series|Factory Sealed|Limited Warranty"
)


_CHOICES: Mapping[str, tuple[list[str], tuple[str, ...]]] = {
    "colour": (
        words(
            "Black White Silver Red Blue Green Yellow Orange Purple Pink Gray Brown Violet Beige "
            "Gold Ivory Charcoal Smoke Clear Cranberry Espresso Titanium"
        ),
        ("{}", "({})", "in {}"),
    ),
    "length": (
        words("3 5 6 7 10 12 14 15 20 25 30 50 75 100"),
        ("{} feet", "{}ft", "{}-Foot", "{}'", "{} ft."),
    ),
    "capacity": (
        words("1 2 4 8 16 32 64 120 160 250 320 500 750"),
        ("{}GB", "{} GB", "{}G"),
    ),
    "size": (
        words(
            "7 8 10 10.1 11.6 13.3 14 15 15.6 17 19 20 22 24 26 32 37 40 42 46 50 52 60 72 84 92 "
            "100 106 120"
        ),
        ('{}"', "{}-Inch", "{} in.", "{} inches"),
    ),
    "pack": (
        words("1 2 3 4 5 6 8 10 12 20 24 25 50 100"),
        ("{}-Pack", "Pack of {}", "{}/Pack", "{} ct"),
    ),
    "power": (
        words("50 75 100 150 200 300 400 500 600 750 800 1000 1200 1500"),
        ("{}W", "{} Watts", "{}-Watt"),
    ),
    "resolution": (
        words("1.3 2 3.2 5 6 7.1 8 10 12 14"),
        ("{}MP", "{} Megapixel", "{}-Megapixel"),
    ),
    "version": (
        words("2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0 10 11 12 2004 2005 2006 2007 2008 XI CS2 CS3"),
        ("{}", "v{}", "Version {}"),
    ),
    "platform": (words("Windows Mac Win/Mac Linux PC"), ("{}", "for {}", "({})")),
    "edition": (
        _phrases(
            "Standard|Professional|Premier|Home|Deluxe|Student|Enterprise|Upgrade|Small Business|"
            "5 User|10 User|Full Version"
        ),
        ("{}", "{} Edition", "- {}"),
    ),
}
"""What a buyer chooses: the values, and how shops write one."""
_OF_PROGRAMS = ("version", "platform", "edition")
_OF_GOODS = tuple(name for name in _CHOICES if name not in _OF_PROGRAMS)
_CODES = ("AAA-1111", "AA1111A", "111111", "A1111", "AA-11A", "1111AA", "A11-1111", "AAAA11")
_CODE_LETTERS = "ABCDEFGHJKLMNPRSTVWXZ"
_ORDERS = ("bflgvc", "blgfvc", "bcglvf", "glvbfc", "blvgfc", "clbgvf")
"""Of brand, line, goods, features, values and code in a title."""


@dataclass(frozen=True, slots=True)
class _Product:
    brand: str
    line: str
    goods: str
    features: tuple[str, ...]
    values: Mapping[str, str]
    code: str | None
    price: float


def catalogue(number: int, rng: random.Random, size: int) -> tuple[Fragment, ...]:
    """About so many offers of one catalogue, in any order; every fourth one is of programs."""
    programs = number % 4 == 3
    brands = [_coined(rng) for _ in range(rng.choice((3, 10, 30, 80)))]
    shops = [_Shop(rng) for _ in range(rng.choice((1, 2, 2, 2, 2, 3)))]
    in_two, twice = rng.choice((0.03, 0.1, 0.3, 0.6, 0.9)), rng.choice((0.0, 0.0, 0.01, 0.05))
    rows: list[tuple[str, Offer]] = []
    for place, product in enumerate(_products(rng, brands, programs)):
        chosen = [rng.randrange(len(shops))]
        if rng.random() < in_two:
            other = rng.randrange(len(shops))
            chosen = chosen * 2 if len(shops) == 1 else [*{*chosen, other}]
        for shop in chosen:
            for _ in range(1 + (rng.random() < twice)):
                rows.append((f"e{place}", shops[shop].offer(product, rng)))
        if len(rows) >= size:
            break
    rng.shuffle(rows)
    return tuple(Fragment(f"c{k}", offer, label=label) for k, (label, offer) in enumerate(rows))


def _products(rng: random.Random, brands: list[str], programs: bool) -> Iterator[_Product]:
    """Products without end, those of a line one after another."""
    most = rng.choice((4, 8, 20))
    names = _OF_PROGRAMS if programs else _OF_GOODS
    while True:
        line = " ".join(
            rng.choice(LINES) if rng.random() < 0.5 else _coined(rng)
            for _ in range(rng.choice((0, 1, 1, 2)))
        )
        brand, goods = rng.choice(brands), rng.choice(_PROGRAMS if programs else _GOODS)
        features = tuple(rng.sample(_FEATURES, rng.randrange(5)))
        differ = rng.sample(names, rng.choice((1, 1, 2)))
        common = _chosen(rng.sample(names, rng.randrange(3)), rng)
        codes, price = _codes(rng, differ), rng.lognormvariate(3.8, 1.2)
        made = set[tuple[str, ...]]()
        for _ in range(rng.choice((1, 1, 2, 3, 5, most))):
            values = common | _chosen(differ, rng)
            if (key := tuple(values.values())) not in made:
                made.add(key)
                cost = price * rng.choice((1, 1, 1, 1.1, 1.3, 2))
                yield _Product(brand, line, goods, features, values, codes(values), cost)


def _chosen(names: list[str], rng: random.Random) -> dict[str, str]:
    return {name: rng.choice(_CHOICES[name][0]) for name in names}


def _codes(rng: random.Random, differ: list[str]) -> Callable[[Mapping[str, str]], str | None]:
    """How a line makes codes: of what its products differ in, a few characters apart, or freely."""
    stem, way = _code(rng), rng.choice(("values", "near", "own", "own", "none"))
    taken, dash, letters = {stem}, "-" * rng.randrange(2), rng.randint(1, 3)

    def code(values: Mapping[str, str]) -> str | None:
        if way == "none":
            return None
        ends = (values[name].replace(".", "")[:letters].upper() for name in differ)
        made = stem + dash + "".join(ends) if way == "values" else _code(rng)
        if way == "near" or made in taken:
            made = _near(stem, rng)
        taken.add(made)
        return made

    return code


def _code(rng: random.Random) -> str:
    kinds = {"A": _CODE_LETTERS, "1": "0123456789"}
    return "".join(rng.choice(kinds.get(sign, sign)) for sign in rng.choice(_CODES))


def _near(code: str, rng: random.Random) -> str:
    """The code with one or two other characters in its second half."""
    signs, places = list(code), [k for k, sign in enumerate(code) if sign.isalnum()]
    for k in rng.sample(places[len(places) // 2 :], rng.choice((1, 1, 2))):
        signs[k] = rng.choice("0123456789" if signs[k].isdigit() else _CODE_LETTERS)
    return "".join(signs)


def _coined(rng: random.Random) -> str:
    return "".join(rng.choice(_SYLLABLES) for _ in range(rng.randint(2, 3))).capitalize()


class _Shop:
    """How a shop describes what it offers: how often each part is there, and in which form."""

    def __init__(self, rng: random.Random) -> None:
        self._order = rng.choice(_ORDERS)
        self._written = {name: rng.choice(forms) for name, (_, forms) in _CHOICES.items()}
        self._in_title = {
            "b": rng.choice((0.3, 0.8, 1.0, 1.0)),
            "l": rng.choice((0.6, 0.9, 1.0)),
            "g": 1.0,
            "f": rng.choice((0.1, 0.4, 0.8)),
            "c": rng.choice((0.0, 0.3, 0.7, 1.0)),
        }
        self._values = {name: rng.choice((0.3, 0.7, 0.9, 1.0)) for name in _CHOICES}
        self._remarks = rng.choice((0.0, 0.1, 0.4))
        self._lower, self._no_dashes = rng.random() < 0.25, rng.random() < 0.3
        self._between = rng.choice((" ", " ", " - ", ", "))
        self._most_words = rng.choice((99, 99, 99, 9, 7))
        self._shown = {
            "modelno": rng.choice((0.0, 0.0, 0.5, 0.9, 1.0)),
            "brand": rng.choice((0.0, 0.6, 1.0)),
            "category": rng.choice((0.0, 0.0, 1.0)),
            "price": rng.choice((0.0, 0.5, 1.0)),
            "description": rng.choice((0.0, 0.0, 0.0, 0.7)),
        }
        self._own_price = rng.choice((0.0, 0.02, 0.1, 0.25))
        self._plural = rng.random() < 0.5

    def offer(self, product: _Product, rng: random.Random) -> Offer:
        """The product as this shop offers it now."""
        code = product.code
        if code is not None and self._no_dashes:
            code = code.replace("-", "")
        values = {name: self._written[name].format(v) for name, v in product.values.items()}
        category = f"{product.goods.split()[-1]}s" if self._plural else product.goods
        price = product.price * (1 + rng.uniform(-self._own_price, self._own_price))
        words = [*product.features, product.goods, *values.values(), product.line, product.brand]
        rng.shuffle(words)
        stated = {
            "modelno": code,
            "brand": product.brand.lower() if self._lower else product.brand,
            "category": category,
            "price": f"{price:.2f}",
            "description": " ".join(filter(None, words)),
        }
        shown = {
            name: (value,)
            for name, value in stated.items()
            if value is not None and rng.random() < self._shown[name]
        }
        return {"name": (self._title(product, code, values, rng),), **shown}

    def _title(
        self,
        product: _Product,
        code: str | None,
        values: Mapping[str, str],
        rng: random.Random,
    ) -> str:
        features = [word for word in product.features if rng.random() < self._in_title["f"]]
        if rng.random() < self._remarks:
            features.append(rng.choice(_REMARKS))
        parts = {
            "b": product.brand,
            "l": product.line,
            "g": product.goods,
            "f": " ".join(features),
            "v": " ".join(v for name, v in values.items() if rng.random() < self._values[name]),
            "c": code or "",
        }
        shown = [
            parts[part]
            for part in self._order
            if parts[part] and (part in "fv" or rng.random() < self._in_title[part])
        ]
        between = self._between if len(shown) > 2 and rng.random() < 0.5 else " "
        title = " ".join(between.join(shown).split()[: self._most_words])
        return title.lower() if self._lower else title
