"""Make customers.csv: a customer file as five systems have filled it, with the truth in `person`.

Everybody in it is invented, and everything is drawn with a fixed seed, so running this file again
writes the same bytes:

    python examples/crm/make.py

What makes such files hard is in it on purpose: nicknames, initials and surnames first; an e-mail
address of the family or of nobody; telephone numbers with and without country code; dates in four
formats; words that stand for a missing value; fathers and sons of one name at one address; and
columns that say when, by whom and in which system a row was written, but nothing about the person.
"""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random


def words(text: str, between: str = " ") -> list[str]:
    return text.split(between)


SEED, PEOPLE = 20_261_124, 615
COLUMNS = (
    "number", "name", "email", "mobile", "phone", "born", "street", "city", "postcode", "entered",
    "system", "campaign", "notes", "person",
)  # fmt: skip
NOTHING = ("n/a", "unknown", "-", "N/A", "none")
SYSTEMS = ("webshop", "till", "newsletter", "support", "import 2019")
CAMPAIGNS = ("Y", "N", "spring", "")
NOTES = (
    "", "", "", "", "called back", "prefers e-mail", "asked for the catalogue", "returned an item",
    "VIP", "do not call before 10", "invoice by post", "moved?", "duplicate?", "left a voicemail",
)  # fmt: skip
NICKNAMES = {
    "Alexander": "Alex", "Andrew": "Andy", "Anthony": "Tony", "Barbara": "Barb",
    "Benjamin": "Ben", "Catherine": "Kate", "Charles": "Charlie", "Christopher": "Chris",
    "Daniel": "Dan", "David": "Dave", "Deborah": "Debbie", "Edward": "Ted",
    "Elizabeth": "Liz", "Frances": "Fran", "Gregory": "Greg", "James": "Jim",
    "Jennifer": "Jenny", "Jonathan": "Jon", "Joseph": "Joe", "Katherine": "Kathy",
    "Margaret": "Peggy", "Matthew": "Matt", "Michael": "Mike", "Nicholas": "Nick",
    "Patricia": "Pat", "Peter": "Pete", "Philip": "Phil", "Rebecca": "Becky",
    "Richard": "Dick", "Robert": "Bob", "Samantha": "Sam", "Samuel": "Sam",
    "Stephen": "Steve", "Susan": "Sue", "Theresa": "Terry", "Thomas": "Tom",
    "Victoria": "Vicky", "William": "Bill",
}  # fmt: skip
PLAIN = words(
    "Alice Amir Anna Aoife Carla Chloe Claire Diana Elena Emma Fatima Fiona George Grace Hannah "
    "Helen Ian Ivan Jack Jasmine Julia Karen Keith Laura Leila Liam Linda Lucy Mark Martin "
    "Mohammed Naomi Nina Oliver Omar Paul Priya Rachel Rosa Ruth Ryan Sarah Sean Simon Sofia "
    "Tara Tariq Wei Yusuf Zoe"
)
SURNAMES = words(
    "Abbott Adams Ahmed Allen Baker Barnes Bell Bennett Black Brooks Brown Burke Butler "
    "Campbell Carr Carter Chan Chapman Clark Clarke Cole Collins Cook Cooper Cox Curtis "
    "Davidson Davies Dixon Doyle Edwards Ellis Evans Farrell Fisher Fletcher Ford Foster Fraser "
    "Gallagher Gibson Gill Gordon Graham Grant Gray Green Griffiths Hall Hamilton Harper Harris "
    "Harrison Hart Harvey Hayes Hill Holmes Howard Hughes Hunt Hussain Jackson James Jenkins "
    "Johnson Jones Kelly Kennedy Khan King Knight Lambert Lawson Lee Lewis Lloyd Marshall "
    "Martin Mason Matthews McDonald Mehta Miller Mills Mitchell Moore Morgan Morris Murphy "
    "Murray Nelson Newman Novak Oconnor Owen Palmer Parker Patel Payne Pearson Perry Phillips "
    "Porter Powell Price Quinn Reid Reynolds Richards Roberts Robinson Rogers Rose Ross Russell "
    "Ryan Saunders Scott Shah Sharp Shaw Simpson Singh Smith Spencer Stevens Stewart Stone "
    "Sutton Taylor Thomas Thompson Turner Walker Walsh Ward Watson Webb Wells West White "
    "Wilkinson Williams Wilson Wood Woods Wright Young"
)
STREETS = words(
    "High Street|Station Road|Church Lane|Victoria Road|Mill Lane|Park Avenue|Green Lane|"
    "Queens Road|Manor Road|Kings Road|Albert Street|New Road|West Street|Elm Grove|"
    "Oak Drive|The Crescent|School Lane|Bridge Street|Chapel Street|York Road|Cedar Close|"
    "Hill View",
    "|",
)
CITIES = (
    ("Leeds", "LS", "113"), ("Sheffield", "S", "114"), ("Nottingham", "NG", "115"),
    ("Leicester", "LE", "116"), ("Bristol", "BS", "117"), ("Reading", "RG", "118"),
    ("Birmingham", "B", "121"), ("Edinburgh", "EH", "131"), ("Glasgow", "G", "141"),
    ("Liverpool", "L", "151"), ("Manchester", "M", "161"), ("Newcastle", "NE", "191"),
)  # fmt: skip
PROVIDERS = ("gmail.com", "yahoo.co.uk", "hotmail.com", "outlook.com", "btinternet.com")
EMPLOYERS = (
    "brightwater-foods.co.uk", "halden-legal.com", "norcroft.org", "pennine-it.co.uk",
    "stanmore-travel.com", "tindale-engineering.co.uk",
)  # fmt: skip
NO_EMAILS = ("none@none.com", "info@example.com", "noemail@shop.example", "test@test.com")
NO_PHONES = ("0000000000", "00000", "1111111111", "+44 0000 000000")
SHORT = {"Street": "St", "Road": "Rd", "Avenue": "Ave", "Lane": "Ln", "Drive": "Dr"}


@dataclass(frozen=True)
class Person:
    """What is true of one person; telephone numbers are national, without the leading zero."""

    first: str
    surname: str
    born: date
    street: str
    city: tuple[str, str, str]
    postcode: str
    mobile: str
    landline: str
    private: str
    work: str


def digits(rng: Random, n: int) -> str:
    return "".join(rng.choices("0123456789", k=n))


def person(rng: Random) -> Person:
    first = rng.choice(list(NICKNAMES)) if rng.random() < 0.6 else rng.choice(PLAIN)
    surname = rng.choice(SURNAMES)
    city = rng.choice(CITIES)
    letters = "".join(rng.choices("ABDEFGHJLNPQRSTUWXYZ", k=2))
    one, two = first.lower(), surname.lower()
    local = rng.choice((f"{one}.{two}", f"{one[0]}{two}", f"{one}{two}", f"{two}{one[0]}"))
    tail = rng.choice(("", "", digits(rng, 2), digits(rng, 4)))
    return Person(
        first,
        surname,
        date(1940, 1, 1) + timedelta(days=rng.randrange(65 * 365)),
        f"{rng.randint(1, 180)} {rng.choice(STREETS)}",
        city,
        f"{city[1]}{rng.randint(1, 28)} {rng.randint(1, 9)}{letters}",
        "7" + digits(rng, 9),
        city[2] + digits(rng, 7),
        f"{local}{tail}@{rng.choice(PROVIDERS)}",
        f"{one}.{two}@{rng.choice(EMPLOYERS)}",
    )


def relative(rng: Random, of: Person) -> Person:
    """Somebody of the same household: same address, landline and often e-mail, maybe same name."""
    other = person(rng)
    first = of.first if rng.random() < 0.2 else other.first
    private = of.private if rng.random() < 0.5 else other.private
    born = of.born + timedelta(days=rng.randint(20 * 365, 35 * 365) * rng.choice((-1, 1)))
    shared = replace(of, first=first, born=born, private=private)
    return replace(shared, mobile=other.mobile, work=other.work)


def typo(rng: Random, text: str) -> str:
    at = rng.randrange(1, len(text)) if len(text) > 1 else 0
    letter = rng.choice("abcdefghijklmnopqrstuvwxyz")
    return rng.choice(
        (
            text[:at] + text[at + 1 :],
            text[:at] + letter + text[at:],
            text[:at] + letter + text[at + 1 :],
            text[: at - 1] + text[at : at + 1] + text[at - 1 : at] + text[at + 1 :],
        )
    )


def name(rng: Random, of: Person) -> str:
    first, surname = of.first, of.surname
    if rng.random() < 0.25:
        first = NICKNAMES.get(first, first)
    elif rng.random() < 0.15:
        first = first[0] + rng.choice(("", "."))
    if rng.random() < 0.12:
        surname = typo(rng, surname)
    elif rng.random() < 0.08:
        first = typo(rng, first)
    whole = rng.choice(
        (f"{first} {surname}",) * 7
        + (f"{surname}, {first}", f"{surname} {first}", f"{first} {surname}".upper())
    )
    return whole.lower() if rng.random() < 0.1 else whole


def email(rng: Random, of: Person) -> str:
    if rng.random() < 0.06:
        return rng.choice(NO_EMAILS)
    address = of.private if rng.random() < 0.75 else of.work
    if rng.random() < 0.08:
        address = typo(rng, address)
    if rng.random() < 0.06:
        address = address.replace("@", "+shop@")
    return rng.choice((address, address, address, address.upper(), address.title()))


def phone(rng: Random, national: str) -> str:
    if rng.random() < 0.05:
        return rng.choice(NO_PHONES)
    if rng.random() < 0.06:
        at = rng.randrange(4, len(national))
        national = national[:at] + rng.choice("0123456789") + national[at + 1 :]
    a, b, c = national[:4], national[4:7], national[7:]
    return rng.choice(
        (
            f"0{national}",
            f"0{a} {b}{c}",
            f"+44 {a} {b}{c}",
            f"+44{national}",
            f"0044 {a}-{b}-{c}",
            f"(0{national[:3]}) {national[3:6]} {national[6:]}",
            f"44{national}",
            f"+44 (0){a} {b} {c}",
        )
    )


def born(rng: Random, of: Person) -> str:
    if rng.random() < 0.05:
        return "0000-00-00"
    day = of.born
    if rng.random() < 0.05:
        day += timedelta(days=rng.choice((-30, -1, 1, 10, 365)))
    form = rng.choice(("%Y-%m-%d", "%Y-%m-%d", "%d/%m/%Y", "%d.%m.%Y", "%d %b %Y", "%d/%m/%y"))
    return day.strftime(form)


def street(rng: Random, of: Person) -> str:
    text = of.street
    if rng.random() < 0.3:
        for long, short in SHORT.items():
            text = text.replace(long, short)
    if rng.random() < 0.06:
        text = typo(rng, text)
    return f"Flat {rng.randint(1, 9)}, {text}" if rng.random() < 0.04 else text


def postcode(rng: Random, of: Person) -> str:
    text = typo(rng, of.postcode).upper() if rng.random() < 0.04 else of.postcode
    return rng.choice((text, text, text.lower(), text.replace(" ", "")))


def people(rng: Random) -> list[Person]:
    out: list[Person] = []
    while len(out) < PEOPLE:
        out.append(relative(rng, rng.choice(out)) if out and rng.random() < 0.12 else person(rng))
    return out


def rows(rng: Random) -> list[dict[str, str]]:
    out = []
    for at, one in enumerate(people(rng)):
        moved = replace(
            person(rng), first=one.first, surname=one.surname, born=one.born, work=one.work,
            mobile=one.mobile, private=one.private,
        )  # fmt: skip
        for _ in range(rng.choices((1, 2, 3, 4, 5, 6), (22, 38, 21, 11, 5, 3))[0]):
            there = moved if rng.random() < 0.08 else one
            said = {
                "name": name(rng, there),
                "email": email(rng, there) if rng.random() < 0.75 else "",
                "mobile": phone(rng, there.mobile) if rng.random() < 0.65 else "",
                "phone": phone(rng, there.landline) if rng.random() < 0.4 else "",
                "born": born(rng, there) if rng.random() < 0.6 else "",
                "street": street(rng, there) if rng.random() < 0.7 else "",
                "city": there.city[0] if rng.random() < 0.8 else "",
                "postcode": postcode(rng, there) if rng.random() < 0.7 else "",
            }
            for column, value in said.items():
                if (not value or rng.random() < 0.02) and rng.random() < 0.15 and column != "name":
                    said[column] = rng.choice(NOTHING)
            entered = datetime(2015, 1, 1) + timedelta(seconds=rng.randrange(10 * 365 * 86400))
            out.append(
                {
                    **said,
                    "entered": entered.strftime("%Y-%m-%d %H:%M:%S"),
                    "system": rng.choice(SYSTEMS),
                    "campaign": rng.choice(CAMPAIGNS),
                    "notes": rng.choice(NOTES),
                    "person": f"p{at:03}",
                }
            )
    out.sort(key=lambda row: row["entered"])
    return [{"number": f"{100_001 + at}", **row} for at, row in enumerate(out)]


def table() -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(Random(SEED)))
    return out.getvalue()


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    (folder / "customers.csv").write_text(table(), encoding="utf-8")
