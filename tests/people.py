"""Records of made-up people, for tests of what reads records."""

import random
from pathlib import Path

from kbforge.contracts import Fragment
from kbforge.files.fragments import write_fragments

_LETTERS = "abcdefghijklmnoprstuvw"


def people(entities: int, seed: int, error: float = 0.15) -> list[Fragment]:
    """Records of made-up people with slips of the pen, labelled, in random order."""
    rng = random.Random(seed)

    def word(n: int) -> str:
        return "".join(rng.choices(_LETTERS, k=n))

    towns = [word(6) for _ in range(12)]
    out = []
    for entity in range(entities):
        person = {
            "name": f"{word(5)} {word(7)}",
            "born": f"19{rng.randint(10, 99)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
            "town": rng.choice(towns),
        }
        for record in range(rng.randint(1, 5)):
            said = dict(person)
            for attribute, value in person.items():
                if rng.random() < error:
                    at = rng.randrange(len(value))
                    letters = "0123456789" if value[at].isdigit() else _LETTERS
                    said[attribute] = value[:at] + rng.choice(letters) + value[at + 1 :]
                elif rng.random() < 0.1:
                    del said[attribute]
            properties = {attribute: (value,) for attribute, value in said.items()}
            properties = properties or {"name": (person["name"],)}
            out.append(Fragment(f"{entity}-{record}", properties, label=str(entity)))
    rng.shuffle(out)
    return out


def write_people(path: Path, entities: int = 40) -> Path:
    """The file, which now has records of so many of them."""
    write_fragments(people(entities, 1), str(path))
    return path
