"""A strict reader of the folders that `neo4j-admin database import` takes.

It checks what the operations manual says of the header and of the fields
(https://neo4j.com/docs/operations-manual/current/import/): a field is NAME:TYPE; a file of nodes
has one ID and a LABEL, one of relationships START_ID, END_ID and TYPE; an id space is a word in
parentheses; ids are unique in their space, and relationships lead to ids that are there; a field
without quotes that is empty is no property; arrays are separated by one character without any
escape; quotes within quotes are doubled.
"""

import re

_FIELD = re.compile(
    r"(?P<name>[^:()\[\]{}\"]*)"
    r"(?::(?P<type>ID|LABEL|START_ID|END_ID|TYPE|IGNORE"
    r"|(?:int|long|float|double|boolean|byte|short|char|string)(?P<array>\[\])?)"
    r"(?:\((?P<space>\w+)\))?)?"
)
_NUMBERS = {"long": int, "double": float}


def lines(text):
    """The records of a CSV file, each a list of (text, whether it stood in quotes)."""
    at, record = 0, []
    while at < len(text):
        if text[at] == '"':
            end = at + 1
            while True:
                end = text.index('"', end)
                if text[end + 1 : end + 2] != '"':
                    break
                end += 2
            record.append((text[at + 1 : end].replace('""', '"'), True))
            at = end + 1
        else:
            end = min(at for at in (text.find(",", at), text.find("\n", at)) if at >= 0)
            assert '"' not in text[at:end]
            record.append((text[at:end], False))
            at = end
        assert text[at] in ",\n", f"expected a comma or the end of the line, got {text[at]!r}"
        if text[at] == "\n":
            yield record
            record = []
        elif text[at + 1] == "\n":  # a last field that is empty
            record.append(("", False))
            at += 1
            yield record
            record = []
        at += 1
    assert not record


def fields(header):
    """The fields of a header as (name, type, id space), names distinct."""
    found = []
    for text, _ in header:
        match = _FIELD.fullmatch(text)
        assert match, f"not a field of a header: {text!r}"
        if match["space"]:
            assert match["type"] in ("ID", "START_ID", "END_ID"), text
        if match["type"] not in ("ID", "LABEL", "START_ID", "END_ID", "TYPE", "IGNORE"):
            assert match["name"], f"a property without a name: {text!r}"
        found.append((match["name"], match["type"] or "string", match["space"] or ""))
    names = [name for name, *_ in found if name]
    assert len(set(names)) == len(names), "a name twice"
    return found


def records(path, array_delimiter):
    """(header, records) of a file; a record is a list of values, None for an empty field."""
    header, *rows = lines(path.read_bytes().decode())
    columns = fields(header)
    out = []
    for row in rows:
        assert len(row) == len(columns), "more or fewer fields than the header has"
        values = []
        for (text, in_quotes), (_, kind, _) in zip(row, columns, strict=True):
            assert "\0" not in text
            if not text and not in_quotes:
                values.append(None)
            elif kind.endswith("[]"):
                values.append(text.split(array_delimiter))
            else:
                values.append(_NUMBERS.get(kind, str)(text))
        out.append(values)
    return columns, out


def read(folder, array_delimiter="\x1f"):
    """Nodes as {space: {id: {property: value}}}, and relationships as (start, end, type, ...)."""
    nodes, found = {}, []
    for path in sorted(folder.iterdir()):
        columns, rows = records(path, array_delimiter)
        kinds = [kind for _, kind, _ in columns]
        if "START_ID" in kinds:
            assert sorted(k for k in kinds if k.isupper()) == ["END_ID", "START_ID", "TYPE"]
            spaces = [space for _, _, space in columns]
            found += [(spaces, row) for row in rows]
            continue
        assert sorted(k for k in kinds if k.isupper()) == ["ID", "LABEL"]
        at = kinds.index("ID")
        held = nodes.setdefault(columns[at][2], {})
        for row in rows:
            assert row[at] not in held, "an id twice"
            assert row[kinds.index("LABEL")]
            held[row[at]] = {
                name: value
                for (name, kind, _), value in zip(columns, row, strict=True)
                if value is not None and kind not in ("ID", "LABEL")
            }
    for spaces, (start, end, kind, *_) in found:
        assert start in nodes[spaces[0]]
        assert end in nodes[spaces[1]]
        assert kind
    return nodes, [tuple(row) for _, row in found]
