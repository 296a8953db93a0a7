"""Imports: files of many kinds become fragments, after their effect was shown; and hostile ones."""

from __future__ import annotations

import csv
import io
import re
import time
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.testclient import TestClient

from kbforge.contracts import Fragment
from kbforge.jobs.views import entities_of
from kbforge_serve import imports, security, uploads
from kbforge_serve.service import Service
from tests.jobs.test_acts import entities
from tests.people import people
from tests.serve.conftest import PEOPLE

OTHERS = [Fragment(f"other-{x.id}", x.properties) for x in people(30, 9)]
COLUMNS = list(dict.fromkeys(name for x in OTHERS for name in x.properties))


def rows(fragments: Sequence[Fragment]) -> list[list[str]]:
    """A table of fragments, with the first value of each attribute."""
    return [
        ["ID", *COLUMNS],
        *([x.id, *(x.properties.get(name, ("",))[0] for name in COLUMNS)] for x in fragments),
    ]


def as_csv(table: Sequence[Sequence[str]], delimiter: str = ",", encoding: str = "utf-8") -> bytes:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows(table)
    return out.getvalue().encode(encoding)


def as_xlsx(table: Sequence[Sequence[Any]]) -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    book, out = openpyxl.Workbook(), io.BytesIO()
    for row in table:
        book.active.append(list(row))
    book.save(out)
    return out.getvalue()


def as_lines(objects: Sequence[Any]) -> bytes:
    return b"".join(orjson.dumps(one) + b"\n" for one in objects)


def flat(fragments: Sequence[Fragment]) -> bytes:
    head, *body = rows(fragments)
    return as_lines([dict(zip(head, row, strict=True)) for row in body])


GOOD = {
    "people.csv": as_csv(rows(OTHERS)),
    "people.tsv": as_csv(rows(OTHERS), "\t"),
    "Excel, semicolons and a mark.csv": as_csv(rows(OTHERS), ";", "utf-8-sig"),
    "Excel as text.txt": as_csv(rows(OTHERS), "\t", "utf-16"),
    "western.csv": as_csv(rows(OTHERS), ";", "cp1252"),
    "people.jsonl": flat(OTHERS),
    "fragments.jsonl": as_lines([x.to_json() for x in OTHERS]),
    "people.xlsx": None,
}


def content_of(name: str) -> bytes:
    return GOOD[name] or as_xlsx(rows(OTHERS))


def imported(client: TestClient, name: str, content: bytes, **params: Any) -> dict[str, Any]:
    sent = client.post("/api/import", params={"name": name, **params}, content=content)
    assert sent.status_code == 200, sent.text
    found: dict[str, Any] = sent.json()
    return found


@pytest.mark.parametrize("name", GOOD)
def test_a_file_is_imported_once(client: TestClient, store: Path, name: str) -> None:
    before = client.get("/api/status").json()
    told = imported(client, name, content_of(name), rehearse=True)
    assert told["counts"]["records"] == told["counts"]["tried"] == len(OTHERS)
    assert told["counts"]["opened"] > 0
    assert client.get("/api/status").json() == before, "a rehearsal writes nothing"
    done = imported(client, name, content_of(name))
    assert done["counts"] == {"records": len(OTHERS), "added": len(OTHERS)}
    after = client.get("/api/status").json()
    assert after["fragments"] == before["fragments"] + len(OTHERS)
    changed = client.get(f"/api/changes?since={done['runs'][0]}").json()
    created = [one for one in changed["changes"] if one["kind"] == "created"]
    assert len(created) == told["counts"]["opened"]
    known = client.get("/api/fragment", params={"id": OTHERS[0].id}).json()["fragment"]
    assert known["properties"] == {k: list(v[:1]) for k, v in OTHERS[0].properties.items()}
    assert known.get("source", name) == name
    again = imported(client, name, content_of(name))
    assert again["counts"] == {"records": len(OTHERS), "known": len(OTHERS)}
    assert again["runs"] is None


def test_the_entities_that_change_are_named_before(client: TestClient, store: Path) -> None:
    copies = as_lines([Fragment(f"copy-{x.id}", x.properties).to_json() for x in PEOPLE])
    told = imported(client, "copies.jsonl", copies, rehearse=True)
    was = entities(str(store))
    imported(client, "copies.jsonl", copies)
    now = entities(str(store))
    changed = {id for id, ids in was.items() if now.get(id) != ids}
    fates = Counter({fate: told["counts"].get(fate, 0) for fate in ("grows", "merges", "parts")})
    assert len(changed) == fates.total() > 20 == len(told["affected"])
    for one in told["affected"]:
        own = was[one["entity"]["id"]]
        assert one["entity"]["size"] == len(own)
        assert one["fragments"] == len(now.get(one["entity"]["id"], ()))
        assert (one["fate"] == "parts") is not any(own <= ids for ids in now.values())
        assert (one["fate"] == "grows") is (one["others"] == [])
    shown = [one["fate"] for one in told["affected"]]
    assert shown == sorted(shown, reverse=True), "those that only grow come last"


def test_a_page_names_the_entities_that_would_change(client: TestClient) -> None:
    copies = as_lines([Fragment(f"copy-{x.id}", x.properties).to_json() for x in PEOPLE])
    page = client.post("/import", files={"file": ("copies.jsonl", copies)})
    sent = {"act": "rehearse", "attribute": [*chosen(page.text).values()]}
    client.post(page.url.path, data=sent)
    shown = settled(client, page.url.path)
    said = re.search(r"Entities of the store that would change: 20 of ([\d,]+)<", shown)
    assert said is not None
    assert f"{said[1]} would get records or other content, 0 merge" in shown
    named = shown.partition("that would change")[2]
    first = re.search(r'<td class="name"><a href="(/entity/[^"]+)"', named)
    assert first is not None
    assert client.get(first[1]).status_code == 200


SPANISH = as_csv([["clave", "Nombre", "nacido", "TOWN", "de"], ["1", "juan", "1950", "york", "x"]])


def test_strange_columns_are_refused_until_they_have_a_meaning(client: TestClient) -> None:
    before = client.get("/api/status").json()
    refused = client.post("/api/import?name=a.csv", content=SPANISH)
    assert refused.status_code == 422
    assert "got none for clave, Nombre, nacido, TOWN, de" in refused.text
    pairs = ["Nombre=name", "TOWN=town", "de=", "nacido=nacido"]
    said = {"map": pairs, "id": "clave", "source": "de"}
    told = imported(client, "a.csv", SPANISH, **said, rehearse=True)
    assert told["counts"]["tried"] == 1
    assert client.get("/api/status").json() == before
    imported(client, "a.csv", SPANISH, **said)
    assert client.get("/api/fragment?id=1").json()["fragment"] == {
        "id": "1",
        "properties": {"name": ["juan"], "nacido": ["1950"], "town": ["york"]},
        "source": "x",
        "metadata": {"row": 2},
    }
    assert client.post("/api/import?name=a.csv&map=x", content=SPANISH).status_code == 400
    assert client.post("/api/import?name=a.csv&id=x", content=SPANISH).status_code == 400


def test_without_a_column_of_ids_they_are_those_of_rows(client: TestClient) -> None:
    content = as_csv([["name", "town"], ["juan", "york"], ["ana", "york"]])
    imported(client, r"C:\Users\me\dos años.csv", content)
    assert client.get("/api/fragment", params={"id": "dos años-2"}).status_code == 200
    refused = client.post("/api/import?name=b.csv&id=", content=as_csv(rows(OTHERS)))
    assert refused.status_code == 422
    assert "got none for ID" in refused.text


@pytest.mark.parametrize("how", ["keep", "replace"])
def test_a_stored_id_with_other_content(client: TestClient, how: str) -> None:
    one = PEOPLE[0]
    content = as_csv([["id", "name"], [one.id, "somebody else"], ["new", "x y"]])
    told = imported(client, "a.csv", content, on_duplicate=how, rehearse=True)
    assert (told["counts"]["differing"], told["counts"]["tried"]) == (1, 1 + (how == "replace"))
    done = imported(client, "a.csv", content, on_duplicate=how)
    assert done["counts"]["added"] == 1 + (how == "replace")
    assert done["counts"].get("replaced", 0) == (how == "replace")
    held = client.get("/api/fragment", params={"id": one.id}).json()["fragment"]["properties"]
    assert (held == {"name": ["somebody else"]}) is (how == "replace")


def test_bad_records_are_set_aside(client: TestClient) -> None:
    lines = b'id,name,town\n1,a b,york\n2,c\n3,\xfc,york\n1,again,york\n,x,york\n"4,x\n5,e f,york\n'
    done = imported(client, "a.csv", lines)
    assert done["counts"]["added"] + done["counts"]["set_aside"] == 7
    assert done["counts"]["set_aside"] == 4
    assert any("a.csv:5" in one and "unique" in one for one in done["reasons"])
    assert not any("/tmp" in one for one in done["reasons"]), "no folder of the server"


def test_a_large_file_is_tried_in_part(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "MOST_TRIED", 20)
    monkeypatch.setattr(imports, "_AT_ONCE", 7)
    content = as_csv(rows(OTHERS))
    told = imported(client, "a.csv", content, rehearse=True)
    assert (told["counts"]["records"], told["counts"]["tried"]) == (len(OTHERS), 20)
    done = imported(client, "a.csv", content)
    assert done["counts"]["added"] == len(OTHERS)


def test_formulas_are_text_and_errors_are_missing(client: TestClient) -> None:
    table = [["id", "name", "town"], ["1", "=1+1", "#N/A"], ["2", '=HYPERLINK("http://x")', "york"]]
    done = imported(client, "a.csv", as_csv(table))
    assert done["counts"]["added"] == 2
    said = client.get("/api/fragment?id=2").json()["fragment"]["properties"]
    assert said["name"] == ['=HYPERLINK("http://x")']
    assert "'=HYPERLINK" in client.get("/api/export?format=wide").text, "a spreadsheet runs it not"
    told = imported(client, "b.xlsx", as_xlsx([["id", "name"], ["3", "=1+1"], ["4", "ana"]]))
    assert told["counts"] == {"records": 1, "set_aside": 1, "added": 1}, "it was never computed"


def bomb() -> bytes:
    """A spreadsheet of some kilobytes whose only sheet has gigabytes."""
    plain, out = zipfile.ZipFile(io.BytesIO(as_xlsx([["id", "name"], ["1", "x"]]))), io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
            if name.endswith("sheet1.xml"):
                cell = b'<row><c t="inlineStr"><is><t>' + b" " * (1 << 25) + b"</t></is></c></row>"
                head = plain.read(name).partition(b"<sheetData>")[0] + b"<sheetData>"
                packed.writestr(name, head + cell * 4)
    return out.getvalue()


WRONG: dict[str, tuple[str, bytes, str]] = {
    "nothing": ("a.csv", b"", "header"),
    "a header alone": ("a.csv", b"id,name\n", "rows below the header"),
    "1,000 columns": (
        "a.csv",
        as_csv([[f"c{n}" for n in range(1_000)], ["x"] * 1_000]),
        "expected from 1 to 200 columns, got 1,000",
    ),
    "a picture": ("a.csv", b"\x89PNG\r\n\x1a\n" + bytes(50), "got a picture"),
    "a store": ("a.csv", b"SQLite format 3\0" + bytes(100), "SQLite"),
    "no encoding": ("a.csv", b"id,name\n1,\x81\x8d\x8f\x90\x9d\x81\x8d\x8f\n", "encoding"),
    "one array": ("a.json", b'[{"a": 1}]', "got one JSON array"),
    "broken JSON": ("a.jsonl", b'{"a": \n', "expected"),
    "no spreadsheet": ("a.xlsx", b"PK\x03\x04" + b"x" * 100, "expected"),
    "an old spreadsheet": ("a.xls", b"\xd0\xcf\x11\xe0" + bytes(600), "expected"),
    "a document": ("a.pdf", b"%PDF-1.4", "got a PDF"),
    "a path": ("../../etc/passwd", b"%PDF-1.4", "passwd: expected"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_table_is_refused_in_a_sentence(client: TestClient, name: str) -> None:
    called, content, expected = WRONG[name]
    sent = client.post("/api/import", params={"name": called}, content=content)
    assert sent.status_code == 400, sent.text
    assert expected in sent.json()["error"]
    assert "/tmp" not in sent.text
    files = {"file": (called, content)}
    page = client.post("/import", files=files, headers={"accept": "text/html"})
    assert page.status_code == 400
    assert "<h1" in page.text


def test_a_bomb_is_defused(client: TestClient) -> None:
    sent = client.post("/api/import?name=a.xlsx", content=bomb())
    assert sent.status_code == 400
    assert "expected" in sent.json()["error"]


def test_only_a_file_may_be_large(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "MOST_FILE", security.MOST_BATCH + (1 << 20))
    head, *body = as_csv(rows(OTHERS)).splitlines(keepends=True)
    content = head + b"".join(body) + b"\r\n" * (security.MOST_BATCH // 2)
    assert imported(client, "a.csv", content)["counts"]["added"] == len(OTHERS)
    for sent in (content * 2, iter([content] * 2)):  # with its length, and without
        refused = client.post("/api/import?name=a.csv", content=sent)
        assert (refused.status_code, refused.json()["ok"]) == (413, False)
    assert client.post("/api/fragments", content=content).status_code == 413
    assert client.post("/import/x", content=content).status_code == 413


# --- pages ----------------------------------------------------------------------------------------


def chosen(page: str) -> dict[str, str]:
    """By column, the attribute that the form of a page has."""
    found = {}
    for row in re.findall(r"<tr><th scope=\"row\".*?</tr>", page, re.DOTALL):
        column = re.sub(r"<[^>]*>", "", row.partition("</th>")[0])
        picked = re.search(r'<option value="([^"]*)" selected>', row)
        assert picked is not None, row
        found[column] = picked[1]
    return found


def settled(client: TestClient, place: str) -> str:
    """The page of a file when nothing is being done with it."""
    while "data-again" in (page := client.get(place).text):
        time.sleep(0.05)
    return page


def test_a_file_is_imported_and_removed_on_pages(client: TestClient, store: Path) -> None:
    before = {one.fragments for one in entities_of(str(store))}
    table = rows(OTHERS)
    table[0] = ["ID", *(f"{name.upper()}_" for name in COLUMNS[:-1]), "¿qué?"]
    page = client.post("/import", files={"file": ("people.csv", as_csv(table))})
    place = page.url.path
    names = dict(zip(table[0][1:-1], COLUMNS, strict=False))
    assert chosen(page.text) == {"ID": "", **names, "¿qué?": imports.UNSAID}
    said = {"id": "ID", "source": "", "replaces": "false", "act": "rehearse"}
    client.post(place, data={**said, "attribute": [*chosen(page.text).values()]})
    page = settled(client, place)
    assert "got none for ¿qué?; its field" in page
    assert "COLUMN" not in page
    assert 'value="take"' not in page, "what is not understood cannot be added"
    client.post(place, data={**said, "attribute": ["", *COLUMNS]})
    page = settled(client, place)
    assert chosen(page) == dict(zip(table[0], ["", *COLUMNS], strict=True))
    assert f"Add {len(OTHERS)} records" in page
    assert {one.fragments for one in entities_of(str(store))} == before
    client.post(place, data={"act": "take"})
    page = settled(client, place)
    assert f"{len(OTHERS)} fragments added" in page
    link = re.search(r'href="(/runs\?[^"]*)"', page)
    assert link is not None
    assert client.get(link[1].replace("&amp;", "&")).status_code == 200
    audit = client.get("/api/audit?limit=1").json()["lines"]
    assert audit[0]["said"]["note"] == "import of people.csv"
    assert len({one.fragments for one in entities_of(str(store))}) > len(before)
    client.post(place, data={"act": "remove"})
    assert f"{len(OTHERS)} fragments removed" in settled(client, place)
    assert {one.fragments for one in entities_of(str(store))} == before


def test_names_and_values_are_escaped(client: TestClient) -> None:
    evil = "<script>alert(1)</script>"
    content = as_csv([["name", evil], [evil, '"><img src=x onerror=alert(1)>']])
    page = client.post("/import", files={"file": (f"{evil}.csv", content)})
    assert page.status_code == 200
    assert evil not in page.text
    assert "<img" not in page.text


def test_files_are_few_and_go(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [service.uploads.make(f"{n}.csv", io.BytesIO(SPANISH)) for n in range(9)]
    assert not Path(made[0].path).parent.exists()
    assert all(Path(one.path).exists() for one in made[1:])
    assert client.get(f"/import/{made[0].key}").status_code == 404
    monkeypatch.setattr(uploads, "_LONGEST_KEPT", 0.01)
    short = service.uploads.make("x.csv", io.BytesIO(SPANISH))
    while Path(short.path).exists():
        time.sleep(0.01)
    service.uploads.close()
    assert not Path(made[-1].path).exists()


def test_a_request_without_a_file_is_refused(client: TestClient) -> None:
    assert client.post("/import", files={"file": ("", b"")}).status_code == 400
    assert client.post("/import", data={"file": "x"}).status_code == 400
    place = client.post("/import", files={"file": ("a.csv", as_csv(rows(OTHERS)))}).url.path
    assert client.post(place, data={"act": "take"}).status_code == 400
    assert client.post(place, data={"act": "other"}).status_code == 422


def test_a_server_that_stops_ends_imports(store: Path) -> None:
    service = Service(str(store))
    file = service.uploads.make("a.csv", io.BytesIO(as_csv(rows(OTHERS))))
    service.close()
    with pytest.raises(RuntimeError):
        service.uploads.start(file, "take", lambda: None)
