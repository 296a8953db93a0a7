"""`kbforge show` and `kbforge evaluate` as users run them; errors of all that read a file."""

from __future__ import annotations

import pytest

from kbforge.kb.read import read_entities
from tests.jsonl import write_lines
from tests.people import write_people


def test_the_largest_entities_are_shown_with_their_sources(program, files):
    ran = program("show", "kb.jsonl", "--fragments", "gold.jsonl", "--top", 1)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.decode() == (
        f"Ada ({files[0].id})\n"
        "  3 fragments, confidence 75 % as reported, subproblem 0\n"
        "\n"
        "  attribute  value         count  stated by\n"
        "  name       Ada               2  r2, r3\n"
        "             Ada Lovelace      1  r1 (census)\n"
        "  born       1815              1  r2\n"
        "\n"
        "  other groupings, as reported\n"
        "    25 %  2 entities: r3 | r1, r2\n"
        "\n"
    )


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        (("--fragment", "r4"), 1),
        (("--fragment", "r3"), 0),
        (("--ambiguous", "--top", "1"), 0),
        (("--top", "1"), 0),
    ],
)
def test_json_shows_the_chosen_entity_whole(program, files, arguments, number):
    ran = program("show", "kb.jsonl", *arguments, "--json")
    assert ran.json == {"entities": [files[number].to_json()], "sources": {}}


def test_an_id_chooses(program, files):
    ran = program("show", "kb.jsonl", "--id", files[1].id)
    assert ran.out.decode().startswith(f"Zoë ({files[1].id})\n")


def test_a_pipe_can_be_shown(program, files, tmp_path):
    ran = program("show", "-", stdin=(tmp_path / "kb.jsonl").read_bytes())
    assert ran.out.decode().count("fragment") == 2


def test_an_empty_knowledge_base_is_no_error(program):
    ran = program("show", "-")
    assert (ran.code, ran.out, ran.err) == (0, b"", "the knowledge base is empty\n")


@pytest.mark.parametrize("kb", ["two.jsonl", "-"])
def test_what_another_grouping_joins_with_has_a_name(program, tmp_path, monkeypatch, kb):
    def entity(name, fragment, **more):
        value = {"value": name, "fragments": [fragment], "count": 1}
        held = {"name": name, "properties": {"name": [value]}, "fragments": [fragment]}
        return {"id": f"e-{fragment}", "confidence": 0.8, "subproblem": 0, **held, **more}

    monkeypatch.chdir(tmp_path)
    rival = {"probability": 0.2, "groups": [["a", "b"]]}
    lines = entity("Petra", "a", alternatives=[rival]), entity("Roszkiewy", "b")
    two = write_lines("two.jsonl", lines)
    ran = program("show", kb, "--fragment", "a", stdin=two.read_bytes() if kb == "-" else b"")
    assert (ran.code, ran.err) == (0, "")
    assert "20 %  joined with Roszkiewy (b)" in ran.out.decode()


@pytest.fixture
def doubtful(tmp_path, monkeypatch):
    """Fragments that leave doubt in the working directory."""
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path / "people.jsonl", 60)


def test_how_probable_it_is_that_two_are_one(program, files):
    ran = program("show", "--similarity", "kb.jsonl", "r1", "r3", "--json")
    assert (ran.code, ran.err) == (0, "")
    held = {"fragment": "r3", "entity": files[0].id, "name": "Ada"}
    similar = {**held, "probability": 0.75, "rest": 0.0}
    assert ran.json == {"fragment": "r1", "similar": [similar]}


def test_all_that_may_be_one(program, files, tmp_path):
    expected = (
        "probability  fragment  entity\n"
        f"      100 %  r2        Ada ({files[0].id})\n"
        f"       75 %  r3        Ada ({files[0].id})\n"
    )
    ran = program("show", "--similarity", "kb.jsonl", "r1")
    assert [line.rstrip() for line in ran.out.decode().splitlines()] == expected.splitlines()
    piped = program("show", "--similarity", "-", "r1", stdin=(tmp_path / "kb.jsonl").read_bytes())
    assert piped.out == ran.out


def test_one_that_is_alone(program, files):
    ran = program("show", "--similarity", "kb.jsonl", "r4")
    assert (ran.code, ran.out) == (0, b"")
    assert ran.err == "no grouping that was kept joins r4 with another fragment\n"


def test_a_map_of_ones_own(program, doubtful):
    job = ("--likelihood", "bigram", "--alpha", "100")
    program("calibrate", "people.jsonl", *job, "--confidence", "-o", "map.toml")
    program("cluster", "people.jsonl", *job, "-o", "kb.jsonl")
    one = next(e for e in read_entities("kb.jsonl") if len(e.fragments) > 1).fragments[0]
    ran = program("show", "--similarity", "kb.jsonl", one, "--confidence-map", "map.toml", "--json")
    told = ran.json["similar"]
    assert told
    assert all(0 <= pair["calibrated"] <= 1 for pair in told if pair["probability"] > 0.01)
    shown = program("show", "--similarity", "kb.jsonl", one, "--confidence-map", "map.toml")
    assert "calibrated" in shown.out.decode().splitlines()[0]


def test_all_alternatives_leave_no_rest(program, doubtful):
    job = ("cluster", "people.jsonl", "--likelihood", "bigram", "--alpha", "100")
    program(*job, "-o", "few.jsonl")
    program(*job, "--set", "alternatives=all", "-o", "all.jsonl")

    def most(kb):
        """The most probability that neither an entity nor its alternatives have."""
        return max(
            1 - e.probability - sum(a.probability for a in e.alternatives)
            for e in read_entities(kb)
        )

    assert most("all.jsonl") == pytest.approx(0, abs=1e-9)
    assert most("few.jsonl") > 1e-3
    assert all(len(e.alternatives) <= 3 for e in read_entities("few.jsonl"))


@pytest.mark.parametrize(("estimate", "alpha"), [("binder", 1), ("vi", 10)])
def test_another_estimate(program, doubtful, estimate, alpha):
    job = ("cluster", "people.jsonl", "--likelihood", "bigram", "--alpha", alpha)
    program(*job, "-o", "map.jsonl")
    ran = program(*job, "--set", f"estimate={estimate}", "-o", "kb.jsonl", "--json")
    found = {frozenset(e.fragments): e for e in read_entities("kb.jsonl")}
    taken = {frozenset(e.fragments) for e in read_entities("map.jsonl")}
    assert ran.json["entities"] == len(found)
    assert found.keys() != taken
    assert set().union(*found) == set().union(*taken)
    program(*job, "--set", f"estimate={estimate}", "-o", "again.jsonl")
    assert list(read_entities("again.jsonl")) == list(found.values())


@pytest.mark.parametrize("linkage", ["single", "complete", "average"])
def test_a_tree(program, files, tmp_path, linkage):
    ran = program(
        "show", "--similarity", "kb.jsonl", "r1", "--tree", "tree.svg", "--linkage", linkage
    )
    assert ran.err == "wrote tree.svg\n"
    drawn = (tmp_path / "tree.svg").read_text()
    assert all(leaf in drawn for leaf in ("Ada Lovelace (r1)", "Ada, 1815 (r2)", "Ada (r3)"))
    assert "100 %" in drawn


def test_a_tree_of_one_fragment(program, files):
    ran = program("show", "--similarity", "kb.jsonl", "r4", "--tree", "tree.svg")
    assert ran.out == b""
    ran.require_refusal("expected 2 to 200 of them, got 1", 2)


def test_the_table_of_scores(program, files):
    ran = program("evaluate", "kb.jsonl", "gold.jsonl")
    assert (ran.code, ran.err) == (0, "")
    table = ran.out.decode()
    assert "4 fragments in 2 clusters, gold has 3; exactly right: 1" in table
    assert "B-cubed, mean F1 of the items         0.6667      1.0000      0.7750" in table
    assert max(map(len, table.splitlines())) <= 80


def test_scores_as_json(program, files):
    ran = program("evaluate", "kb.jsonl", "gold.jsonl", "--json")
    found = ran.json
    assert (found["items"], found["clusters"], found["unlabelled"]) == (4, 2, 0)
    assert found["bcubed_precision"] == pytest.approx((3 * 5 / 9 + 1) / 4)
    assert found["pairwise_precision"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("position", [0, 1])
def test_either_side_may_be_standard_input(program, files, tmp_path, position):
    names = ["kb.jsonl", "gold.jsonl"]
    data = (tmp_path / names[position]).read_bytes()
    names[position] = "-"
    ran = program("evaluate", *names, "--json", stdin=data)
    assert ran.json["items"] == 4


def test_scores_of_what_both_have(program, files, tmp_path):
    half = b"".join((tmp_path / "gold.jsonl").read_bytes().splitlines(keepends=True)[:2])
    program("evaluate", "kb.jsonl", "-", stdin=half).require_refusal(
        "kbforge: the knowledge base has 2 fragments that the gold file lacks, first "
        '"r3"; use --partial to evaluate the fragments that both have\n',
        2,
    )
    ran = program("evaluate", "kb.jsonl", "-", "--partial", stdin=half)
    assert "left out: 2 fragments only in the knowledge base" in ran.out.decode()


AS = "export kb.jsonl --format"
CSV = f"{AS} csv"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("show kb.jsonl --id Q1", 'the knowledge base has no entity "Q1"'),
        ("show kb.jsonl --fragment Q1", 'the knowledge base has no fragment "Q1"'),
        ("show kb.jsonl --id a --fragment b", "--id and --fragment cannot be combined"),
        ("show kb.jsonl --fragments /dev/null", '--fragments lacks the fragment "r1"'),
        ("show kb.jsonl --fragments none", "cannot read none: no such file"),
        ("show --similarity kb.jsonl r9", 'the knowledge base has no fragment "r9"'),
        ("show --similarity kb.jsonl r1 r1", 'expected two fragments, got "r1" twice'),
        ("show --similarity gone.jsonl r1", "cannot read gone.jsonl"),
        ("show --similarity kb.jsonl r1 --confidence-map gone.toml", "cannot read gone.toml"),
        ("show - --fragments -", "only one of KB and --fragments can be standard input\n"),
        ("show --similarity - r1 --confidence-map -", "only one of KB and --confidence-map"),
        ("show --similarity kb.jsonl", "--similarity: expected the id of a fragment, or of two"),
        ("show --similarity kb.jsonl r1 --top 2", "--top and --similarity cannot be combined"),
        ("evaluate - -", "only one of KB and GOLD can be standard input"),
        ("evaluate gold.jsonl gold.jsonl", "gold.jsonl:1: expected entities, as kbforge cluster"),
        ("evaluate kb.jsonl kb.jsonl", "kb.jsonl:1: expected fragments, one JSON object per line"),
        ("evaluate none.jsonl gold.jsonl", "cannot read none.jsonl: no such file or directory"),
        ("evaluate kb.jsonl /dev/null", "the knowledge base has 4 fragments that the gold file"),
        ("export kb.jsonl --format nope", 'there is no exporter "nope"; available: '),
        ("export kb.jsonl --set exporter.nope=1", 'exporter jsonl has no option "nope"'),
        ("export kb.jsonl --set source.a=1", '--set source.a=1: unknown kind "source"'),
        (f"{CSV} --set exporter.separator=ab", "exporter csv: separator must be"),
        (f"{CSV} --set exporter.guard_formulas=perhaps", "exporter csv: guard"),
        (
            "export kb.jsonl --policy bset",
            "expected a policy (all, fused, latest, longest,",
        ),
        ("export kb.jsonl --policy policy.toml", "the policy uses sources or metadata"),
        (f"{AS} members --set exporter.values=all", "exporter members has no option"),
        (f"{AS} jsonl --set exporter.threshold=0.5", 'exporter jsonl has no option "threshold"'),
        (f"{AS} pairs --set exporter.threshold=1", "exporter pairs: threshold: expected a number"),
        (f"{AS} neo4j", "exporter neo4j: expected a folder, got standard output"),
        (f"{AS} neo4j -o missing/kb", "cannot write missing/kb: no such file or"),
        (f"{AS} neo4j -o gold.jsonl", "exporter neo4j: gold.jsonl: expected no such"),
        (f"{AS} ftm --fragments gone.jsonl", "cannot read gone.jsonl: no such file"),
        ("export kb.jsonl --fragments kb.jsonl --format ftm", "kb.jsonl:1: expected fragments"),
        ("export kb.jsonl -o missing/kb.csv", "cannot write missing/kb.csv: no such file or dir"),
        ("export kb.jsonl --json", "--json and the entities cannot both go to standard output"),
    ],
)
def test_errors_are_one_sentence(program, files, tmp_path, command, sentence):
    (tmp_path / "policy.toml").write_text('default = "preferred"\nsources = ["census"]\n')
    ran = program(*command.split(" "))
    ran.require_refusal(f"kbforge: {sentence}", 1, 2)
    assert ran.out == b""


STAFF = """id,name,born,employer,observed
1,Ada Lovelace,1815-12-10,Lublin University,2015
2,Ada Lovelace,1815-12-10,Lublin University,2018-05
3,Ada Lovelace,1815-12-10,Acme,2019-06-01
4,Ada Lovelace,1815-12-10,Acme,2021-01-01T10:00Z
5,Ada Lovelace,1815-12-10,Beta,soon
"""


def test_what_held_when(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "staff.csv").write_text(STAFF)
    ran = program("cluster", "staff.csv", "--time", "observed")
    assert '4 fragments with a time, which no model compares; 1 cannot be read, such as "soon"' in (
        ran.err
    )
    assert program("cluster", "staff.csv", "--time", "observed", "--into", "kb.sqlite").code == 0
    for kb in ("staff.kb.jsonl", "kb.sqlite"):
        shown = program("show", kb).out.decode()
        assert "Lublin University (2015 to 2018-05, until 2019-06-01, then Acme)" in shown
        assert "Acme (2019-06-01 to 2021-01-01T10:00Z)" in shown
        ran = program("show", kb, "--at", "2018", "--json")
        (entity,) = ran.json["entities"]
        assert [value["value"] for value in entity["properties"]["employer"]] == [
            *("Lublin University", "Beta")
        ]
        assert entity["properties"]["employer"][0]["until"] == "2019-06-01"
        ran = program("export", kb, "--format", "wide", "--at", "2020", "--policy", "latest")
        assert ran.out.decode().splitlines()[1].endswith(',"Ada Lovelace","1815-12-10","Acme"')
        ran = program("show", kb, "--at", "soon")
        assert (ran.code, ran.out) == (2, b"")
        assert "--at: expected a time such as 2019, 2019-03 or" in ran.err


def test_without_times_what_held_when_is_unknown(program, files):
    for verb in (("show",), ("export", "-o", "old.csv")):
        ran = program(verb[0], "kb.jsonl", *verb[1:], "--at", "2018")
        assert "note: no value has a time; kbforge cluster --time ATTRIBUTE" in ran.err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("name", "expected a time such as 2019"),
        ("obsrved", "no fragment has an attribute of this name, nor its metadata (did you mean "),
    ],
)
def test_a_time_that_nothing_has_is_refused(program, tmp_path, monkeypatch, name, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "staff.csv").write_text(STAFF)
    ran = program("cluster", "staff.csv", "--time", name)
    assert ran.code == 2
    assert f"kbforge: --time {name}: {said}" in ran.err


def test_an_entity_that_had_no_values_says_so(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "staff.csv").write_text(STAFF.rpartition("5,")[0])
    program("cluster", "staff.csv", "--time", "observed", "-o", "kb.jsonl")
    shown = program("show", "kb.jsonl", "--at", "2014").out.decode()
    assert "no values" in shown
    assert "attribute" not in shown


def test_a_table_is_to_be_clustered(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, command in (("staff.csv", "cluster staff.csv -o kb.jsonl"), ("staff", "load csv")):
        (tmp_path / name).write_text(STAFF)
        for verb in ("show", "export"):
            ran = program(verb, name)
            assert ran.code == 1
            said = f"entities, as kbforge cluster writes, got a table; kbforge {command}"
            assert said in ran.err
