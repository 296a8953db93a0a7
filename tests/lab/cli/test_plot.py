"""`kbforge lab plot` as users run it."""

import sys
from pathlib import Path

import pytest

from kbforge.registry import install_command
from tests.cli.test_cluster import GAUSSIAN, write_points


@pytest.fixture
def points(tmp_path):
    return write_points(tmp_path / "points.jsonl", n=24, centres=3)


def test_clusters_and_draws(program, points, tmp_path):
    picture, film = tmp_path / "p.png", tmp_path / "f.gif"
    job = ("lab", "plot", points, "--alpha", 1, "-o", picture, "--top", 2)
    ran = program(*job, "--animate", film, "--frames", 4)
    assert ran.code == 0, ran.err
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert film.read_bytes().startswith(b"GIF8")
    assert f"wrote {picture}" in ran.err
    before = picture.read_bytes()
    assert program(*job).code == 0
    assert picture.read_bytes() == before


@pytest.mark.parametrize("clusterer", ["gibbs", "agglomerative"])
def test_an_offline_method_is_shown_by_rounds(program, points, tmp_path, clusterer):
    from PIL import Image

    films = [tmp_path / "one.gif", tmp_path / "two.gif"]
    job = ("lab", "plot", points, "--alpha", 1, "--set", f"clusterer={clusterer}", "--frames", 4)
    for film in films:
        ran = program(*job, "--animate", film)
        assert ran.code == 0, ran.err
    assert films[0].read_bytes() == films[1].read_bytes()
    with Image.open(films[0]) as shown:
        assert 2 < shown.n_frames <= 4


def test_fewer_groupings_than_asked_for_are_said_to_be_all(program, points, tmp_path):
    picture = tmp_path / "p.svg"
    job = ("lab", "plot", points, "--alpha", 1, "-o", picture, "--set", "clusterer=greedy")
    ran = program(*job, "--top", 3)
    assert ran.code == 0, ran.err
    assert ran.err.splitlines() == [
        "note: only 1 grouping was kept, fewer than --top 3 asks for",
        f"wrote {picture}",
    ]
    assert "probability" not in _text(picture.read_text())
    assert "only" not in program(*job).err
    assert "only" not in program("lab", "plot", points, "--alpha", 1, "-o", picture, "--top", 3).err
    assert "probability" in _text(picture.read_text())


def test_draws_a_knowledge_base(program, points, tmp_path):
    kb, picture = tmp_path / "kb.jsonl", tmp_path / "kb.svg"
    assert program("cluster", points, "-o", kb, *GAUSSIAN).code == 0
    assert program("lab", "plot", points, "--kb", kb, "-o", picture, "--limit", 100).code == 0
    assert "3 entities" in _text(picture.read_text())


def _text(svg: str) -> str:
    """Comments of matplotlib's SVG, which hold the words that it draws as paths."""
    return " ".join(part.split("-->")[0] for part in svg.split("<!--")[1:])


def test_without_a_name_the_picture_is_clusters_png(program, points, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert program("lab", "plot", points, "--alpha", 1).code == 0
    assert (tmp_path / "clusters.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        *(
            (("--kb", "kb.jsonl", *option), f"leave out {option[0]}, or --kb to cluster")
            for option in (
                ("--top", "2"),
                ("--animate", "a.gif"),
                ("--frames", "9"),
                ("--set", "clusterer=split-smc"),
                ("--likelihood", "gaussian"),
                ("--set", "surrogate=gaussian"),
                ("--set", "particles=3"),
                ("--set", "max-evals=3"),
                ("--alpha", "1"),
                ("--seed", "0"),
                ("--set", "likelihood.a=2"),
            )
        ),
        (("-o", "a.jpg"), '"a.jpg": expected a name that ends in .png or .svg'),
        (("-o", ""), '"": expected a name that ends in .png or .svg'),
        (("--animate", "a.png"), '"a.png": expected a name that ends in .gif'),
        (("--animate", ""), '"": expected a name that ends in .gif'),
        (("--frames", "9"), "--frames limits an animation; name one with --animate"),
        (("--likelihood", "no-such"), "no-such"),
    ],
)
def test_wrong_usage_is_one_sentence(program, points, arguments, said):
    ran = program("lab", "plot", points, *arguments)
    assert ran.code != 0
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1


def test_the_groupings_side_by_side_are_not_too_many(program, points):
    ran = program("lab", "plot", points, "--top", 25)
    assert ran.code == 2
    assert "'--top'" in ran.err
    assert "less than or equal to 24" in ran.err


def test_names_cannot_be_drawn(program, tmp_path):
    names = tmp_path / "names.jsonl"
    names.write_text('{"id": "a", "properties": {"name": ["x"]}}\n')
    ran = program("lab", "plot", names)
    assert ran.code == 2
    assert 'fragment "a": expected a vector of 2 numbers' in ran.err


def test_without_matplotlib_the_extra_is_named(program, points, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = program("lab", "plot", points)
    assert ran.code == 2
    assert install_command("bench") in ran.err


def test_an_output_that_is_an_input_is_refused(program, points, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kb.png").write_text("{}\n", encoding="utf-8")
    ran = program("lab", "plot", points, "--kb", "kb.png", "-o", "kb.png")
    assert (ran.code, Path("kb.png").read_text(encoding="utf-8")) == (2, "{}\n")
    assert "is an input" in ran.err
    same = program("lab", "plot", points, "--alpha", 1, "-o", "a.gif", "--animate", "a.gif")
    assert same.code != 0
    assert not Path("a.gif").exists()


def test_a_split_that_is_the_input_is_refused(program, points, monkeypatch):
    monkeypatch.chdir(points.parent)
    before = points.read_bytes()
    splits = f"{points.stem},other"
    ran = program("lab", "sample", "confusable", points.name, "-o", ".", "--splits", splits)
    assert (ran.code, points.read_bytes()) == (2, before)
    assert "is an input" in ran.err
