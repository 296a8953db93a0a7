"""The report as one page of HTML: nothing is loaded, nothing runs, and it prints.

All text that comes from data loses what a terminal or a page would obey, is escaped, and stands in
a <bdi>, so that no right-to-left name turns the numbers beside it around.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from kbforge.errors import quoted
from kbforge.kb.report.charts import bars, reliability
from kbforge.kb.report.facts import Attribute, Band, Changed, Doubtful, Facts, Listed, Share
from kbforge.kb.report.style import STYLE
from kbforge.version import __version__
from kbforge.words import counted, percent

_CHARACTERS = 400

_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="referrer" content="no-referrer">
"""


def report_html(facts: Facts) -> str:
    """The page of a knowledge base; the same facts give the same page."""
    title = escape(quoted(facts.title, _CHARACTERS))
    parts = (
        _tiles(facts),
        *_chosen(facts),
        *_figures(facts),
        *_calibration(facts),
        *_doubtful(facts),
        *_conflicts(facts),
        *_lists(facts),
        *_changes(facts),
        *_decisions(facts),
        *_runs(facts),
    )
    return (
        f"{_HEAD}<title>{title} - KBForge report</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1><bdi>{title}</bdi></h1>"
        f'<p class="faint">A knowledge base, told by KBForge {escape(__version__)}.</p></header>\n'
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _text(value: object) -> str:
    return f"<bdi>{escape(quoted(value, _CHARACTERS))}</bdi>"


def _tiles(facts: Facts) -> str:
    certain = facts.unrivalled
    found = [
        (f"{facts.entities:,}", "entity" if facts.entities == 1 else "entities"),
        (f"{facts.fragments:,}", "fragment" if facts.fragments == 1 else "fragments"),
        (f"{facts.stated:,.0f}", "entities expected to be right"),
        (f"{facts.entities - certain:,}", "with another grouping that is possible"),
    ]
    if facts.drift is not None:
        found.append((f"{facts.drift.figure:.2f}", "drift"))
    tiles = "".join(f'<div class="tile"><b>{n}</b>{escape(what)}</div>' for n, what in found)
    return f'<section class="tiles">{tiles}</section>'


def _chosen(facts: Facts) -> Iterator[str]:
    if not facts.chosen and facts.drift is None:
        return
    rows = [
        f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in facts.chosen
    ]
    if facts.drift is not None:
        rows.append(f"<tr><th>drift</th><td>{_text(facts.drift.told)}</td></tr>")
    table = f'<table class="facts">{"".join(rows)}</table>'
    yield f"<section><h2>How it was made</h2>{table}</section>"


def _figures(facts: Facts) -> Iterator[str]:
    sizes = [(_size(band), band.entities) for band in facts.sizes]
    stated = [(_interval(share), share.entities) for share in facts.confidences]
    kind = "calibrated" if facts.calibrated else "as reported"
    yield (
        '<div class="pair"><section><h2>Sizes</h2>'
        '<p class="faint">Entities by how many fragments they have.</p>'
        f"{bars('entities by fragments', sizes)}</section>"
        "<section><h2>Confidence</h2>"
        f'<p class="faint">Entities by stated confidence, {kind}: how probable it is that an '
        "entity has exactly the fragments that it should have.</p>"
        f"{bars('entities by confidence', stated)}</section></div>"
    )


def _size(band: Band) -> str:
    if band.high is None:
        return f"{band.low:,} and more"
    return f"{band.low:,}" if band.high == band.low else f"{band.low:,} to {band.high:,}"


def _interval(share: Share) -> str:
    return f"{share.low * 100:.0f} to {share.high * 100:.0f} %"


def _exactly(probability: float) -> str:
    return f"{probability * 100:.1f} %"


def _calibration(facts: Facts) -> Iterator[str]:
    held = [share for share in facts.confidences if share.entities]
    if not held:
        return
    known = sum(share.known for share in held)
    head = '<th>stated</th><th class="count">entities</th><th class="count">mean</th>'
    if known:
        head += '<th class="count">with labels</th><th class="count">mean</th>'
        head += '<th class="count">right</th>'
    rows = "".join(f"<tr>{_share(share, bool(known))}</tr>" for share in held)
    table = _table(head, rows)
    told, charts = _verdict(facts, known), ""
    if known:
        right = [(s.stated_known, s.right / s.known, s.known) for s in held if s.known]
        charts += _dots("entities with labels", right)
    if facts.pairs is not None and facts.pairs.count:
        charts += _dots(
            "pairs by answers", [(b.reported, b.share, b.count) for b in facts.pairs.table]
        )
        told += (
            f"<p>{counted(facts.pairs.count, 'answer')} about pairs: the dots say how many were "
            "one entity, of those that were said to be with so much probability. Pairs are asked "
            "about because they are in doubt, so they do not stand for the others.</p>"
        )
    body = (
        f'<div class="pair wide"><div>{charts}</div><div>{table}</div></div>' if charts else table
    )
    yield f'<section class="keep"><h2>Calibration</h2>{told}{body}</section>'


def _dots(what: str, points: Sequence[tuple[float, float, int]]) -> str:
    drawn = reliability(f"{what}: stated and right", points)
    return f'<p class="faint">{what}</p>' + drawn.replace("<svg ", '<svg class="square" ', 1)


def _verdict(facts: Facts, known: int) -> str:
    """What the labels say of all that is stated."""
    if not known:
        return (
            '<p class="faint">Whether the stated confidences are right cannot be told without '
            "labels or answers; this is what they claim.</p>"
        )
    right = sum(share.right for share in facts.confidences)
    stated = sum(share.stated_known * share.known for share in facts.confidences)
    return (
        f"<p>Of {counted(known, 'entity', 'entities')} whose fragments all have labels, {right:,} "
        f"({percent(right / known)}) are right; {stated:,.0f} ({percent(stated / known)}) were "
        "expected to be.</p>"
    )


def _share(share: Share, known: bool) -> str:
    cells = [f"{share.entities:,}", _exactly(share.stated)]
    if known and share.known:
        cells += [
            f"{share.known:,}",
            _exactly(share.stated_known),
            _exactly(share.right / share.known),
        ]
    elif known:
        cells += ["0", "", ""]
    counts = "".join(f'<td class="count">{cell}</td>' for cell in cells)
    return f'<td class="word">{_interval(share)}</td>{counts}'


def _doubtful(facts: Facts) -> Iterator[str]:
    if not facts.doubtful:
        return
    cards = "".join(_card(one) for one in facts.doubtful)
    yield (
        "<section><h2>Most depends on these entities</h2>"
        '<p class="faint">Their doubt times their fragments is largest. A review asks about those '
        f"with other groupings.</p>{cards}</section>"
    )


def _card(one: Doubtful) -> str:
    width = min(max(one.confidence, 0.0), 1.0) * 100
    values = "".join(f"<dt>{_text(a.name)}</dt><dd>{_values(a)}</dd>" for a in one.attributes)
    if one.more:
        values += f"<dt></dt><dd><small>{counted(one.more, 'more attribute')}</small></dd>"
    others = "".join(
        f"<li>{escape(percent(probability))}: {_text(told)}</li>"
        for probability, told in one.alternatives
    )
    held = ", ".join(map(_text, one.fragments))
    if one.size > len(one.fragments):
        held += f" and {one.size - len(one.fragments):,} more"
    return (
        f'<article class="entity"><h3>{_text(one.name)}</h3><p class="faint">'
        f'<span class="meter"><i style="width:{width:.0f}%"></i></span>'
        f"confidence {escape(percent(one.confidence))}, {counted(one.size, 'fragment')}, "
        f"{_text(one.id)}</p><dl>{values}</dl><p><small>{held}</small></p>"
        + (f"<p>Other groupings, as reported:</p><ul>{others}</ul>" if others else "")
        + "</article>"
    )


def _values(attribute: Attribute) -> str:
    shown = [
        _text(value) + (f" <small>x{count:,}</small>" if count > 1 else "")
        for value, count in attribute.values
    ]
    more = f" <small>and {attribute.more:,} more</small>" if attribute.more else ""
    return "; ".join(shown) + more


def _conflicts(facts: Facts) -> Iterator[str]:
    if not facts.conflicts:
        return
    rows = "".join(
        f'<tr><td class="name">{_text(one.attribute)}</td><td class="count">{one.stated:,}</td>'
        f'<td class="count">{one.disagree:,}</td>'
        f'<td class="id">{_text(one.example)}: {"; ".join(map(_text, one.values))}</td></tr>'
        for one in facts.conflicts
    )
    head = '<th>attribute</th><th class="count">stated</th><th class="count">in conflict</th>'
    yield (
        "<section><h2>Where values conflict</h2>"
        '<p class="faint">How many entities state an attribute, and how many of these have '
        "fragments that share no value of it. Different names are mostly spellings; different "
        "dates of birth may be errors, or two entities in one.</p>"
        f"{_table(head + '<th>the entity with most values</th>', rows)}</section>"
    )


_ORDERS = (
    ("by-size", "largest first"),
    ("by-doubt", "least certain first"),
    ("by-name", "by name"),
)


def _lists(facts: Facts) -> Iterator[str]:
    lists = facts.lists
    if not lists.by_name:
        return
    links = " | ".join(f'<a href="#{anchor}">{words}</a>' for anchor, words in reversed(_ORDERS))
    count = len(lists.by_name)
    shown = "All" if count == facts.entities else f"The first {count:,} of"
    head = '<th>name</th><th>other values</th><th class="count">fragments</th>'
    head += '<th class="count">confidence</th>'
    parts = []
    for (anchor, words), held in zip(
        _ORDERS, (lists.by_size, lists.by_doubt, lists.by_name), strict=True
    ):
        rows = "".join(f"<tr>{_listed(one)}</tr>" for one in held)
        caption = f'<p class="faint">{shown} {facts.entities:,}, {words}.</p>'
        parts.append(f'<div class="order" id="{anchor}">{caption}{_table(head, rows)}</div>')
    yield f"<section><h2>Entities</h2><p>{links}</p>{''.join(parts)}</section>"


def _listed(one: Listed) -> str:
    values, confidence = "; ".join(map(_text, one.values)), escape(percent(one.confidence))
    return (
        f'<td class="name">{_text(one.name)}</td><td class="name">{values}</td>'
        f'<td class="count">{one.size:,}</td>'
        f'<td class="count">{confidence}</td>'
    )


def _named(id: str, names: Mapping[str, str]) -> str:
    """The name that goes with an id, and the id."""
    name = names.get(id)
    return _text(id) if name in (None, id) else f"{_text(name)} <small>{_text(id)}</small>"


def _changes(facts: Facts) -> Iterator[str]:
    if not facts.kinds:
        return
    kinds = ", ".join(f"{count:,} {escape(str(kind))}" for kind, count in facts.kinds)
    rows = "".join(f"<tr>{_change(change, facts.entity_names)}</tr>" for change in facts.changes)
    head = '<th>entity</th><th>what</th><th class="count">before</th>'
    head += '<th class="count">after</th><th>others</th>'
    yield (
        f"<section><h2>Changes of the last run</h2><p>{kinds}. These move most fragments:</p>"
        f"{_table(head, rows)}</section>"
    )


def _change(change: Changed, names: Mapping[str, str]) -> str:
    others = ", ".join(_named(id, names) for id in change.others)
    if change.more:
        others += f" and {change.more:,} more"
    return (
        f'<td class="id">{_named(change.entity, names)}</td>'
        f'<td class="word">{escape(str(change.kind))}</td>'
        f'<td class="count">{change.before:,}</td><td class="count">{change.after:,}</td>'
        f"<td>{others}</td>"
    )


def _decisions(facts: Facts) -> Iterator[str]:
    in_force = facts.n_same + facts.n_different
    if not in_force and not facts.n_undone:
        return
    rows = "".join(
        f'<tr><td class="count">{one.number}</td>'
        f'<td class="word">{"same" if one.decision.same else "different"}</td>'
        f'<td class="id">{_named(one.decision.first, facts.fragment_names)}</td>'
        f'<td class="id">{_named(one.decision.second, facts.fragment_names)}</td></tr>'
        for one in facts.decisions
    )
    head = '<th class="count">number</th><th>decided</th><th>fragment</th><th>and fragment</th>'
    table = _table(head, rows) if rows else ""
    yield (
        f"<section><h2>Decisions</h2><p>{facts.n_same:,} same and {facts.n_different:,} different "
        f"are in force, {facts.n_undone:,} undone.{_of(facts.decisions, in_force)}</p>"
        f"{table}</section>"
    )


def _runs(facts: Facts) -> Iterator[str]:
    if not facts.runs:
        return
    rows = "".join(
        f'<tr><td class="count">{run.number}</td><td class="word">{_when(run.began)}</td>'
        f"<td>{_text(run.verb)}{'' if run.finished else ' (unfinished)'}</td>"
        f"<td>{_text(run.about)}</td>"
        f'<td class="count">{run.added:,}</td><td class="count">{run.removed:,}</td>'
        f'<td class="count">{run.entities:,}</td><td class="count">{run.seconds:,.1f}</td></tr>'
        for run in facts.runs
    )
    head = '<th class="count">run</th><th>began, UTC</th><th>verb</th><th>about</th>' + "".join(
        f'<th class="count">{name}</th>' for name in ("added", "removed", "entities", "seconds")
    )
    yield (
        f"<section><h2>Runs</h2><p>{counted(facts.n_runs, 'run')}, {facts.seconds:,.1f} seconds in "
        f"all.{_of(facts.runs, facts.n_runs)}</p>"
        f"{_table(head, rows)}</section>"
    )


def _table(head: str, rows: str) -> str:
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def _of(listed: Sequence[object], count: int) -> str:
    return f" The last {len(listed)} are listed." if len(listed) < count else ""


def _when(began: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.gmtime(began))
    except (OverflowError, OSError, ValueError):
        return ""
