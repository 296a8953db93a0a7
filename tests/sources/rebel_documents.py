"""Documents in REBEL's format, of our own making."""

from typing import Any

FILLER = "She wrote many long poems about the sea and the hills, and lived to be very old. " * 2


def mention(uri: str, form: str, start: int = 0) -> dict[str, Any]:
    return {
        "uri": uri,
        "boundaries": [start, start + len(form)],
        "surfaceform": form,
        "annotator": "Me",
    }


def fact(subject: dict[str, Any], pid: str, label: str, value: dict[str, Any]) -> dict[str, Any]:
    predicate = {"uri": pid, "boundaries": None, "surfaceform": label, "annotator": "Me"}
    return {"subject": subject, "predicate": predicate, "object": value, "sentence_id": 0}


def document(i: int) -> dict[str, Any]:
    """One page, one entity, one fact."""
    name = f"Ada{i}"
    return {
        "docid": str(i),
        "title": name,
        "uri": f"Q{i}",
        "text": f"{name} is a poet from Rome. {FILLER}",
        "entities": [mention(f"Q{i}", name)],
        "triples": [fact(mention(f"Q{i}", name), "P19", "place of birth", mention("Q220", "Rome"))],
    }
