"""The look of the report: light and dark by the reader's choice, one column on paper."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --faint: #5d6b7a; --line: #dfe4ea;
  --ground: #ffffff; --card: #f6f8fa; --bar: #4477aa; --point: #c2475b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ef; --faint: #9fabb8; --line: #33404d;
  --ground: #12181f; --card: #1a222b; --bar: #6d9fd1; --point: #ff8a9a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 3rem; color: var(--ink);
  background: var(--ground); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; padding-bottom: .25rem;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0; }
p { margin: .4rem 0; max-width: 46rem; }
h1, h3, td, th, dd, li, p { overflow-wrap: anywhere; }
.faint, small, th { color: var(--faint); }
.tiles { display: grid; gap: .6rem; margin: 1.2rem 0 0;
  grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  padding: .6rem .8rem; }
.tile b { display: block; font-size: 1.35rem; line-height: 1.25; }
.pair { display: grid; gap: 0 2.5rem; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); }
td.word { white-space: nowrap; }
td.id { min-width: 9.5rem; }
td.name { min-width: 8rem; }
.pair.wide { grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); }
svg { display: block; width: 100%; max-width: 27rem; height: auto; margin: .4rem 0; }
svg.square { max-width: 20rem; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .number { fill: var(--faint); }
svg .bar { fill: var(--bar); }
svg .grid { stroke: var(--line); }
svg .even { stroke: var(--faint); stroke-dasharray: 4 4; }
svg .point { fill: var(--point); fill-opacity: .75; }
.scroll { overflow-x: auto; }
.order { display: none; scroll-margin-top: 6rem; }
.order:target, #by-name { display: block; }
.order:target ~ #by-name { display: none; }
a { color: var(--bar); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 500; font-size: .87rem; }
thead th, .facts th { white-space: nowrap; }
td.count, th.count { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.entity { border: 1px solid var(--line); border-radius: 6px; background: var(--card);
  padding: .7rem .9rem; margin: .7rem 0; break-inside: avoid; }
.entity p { max-width: none; }
.entity dl { margin: .4rem 0; display: grid; grid-template-columns: fit-content(40%) 1fr;
  gap: .1rem .9rem; }
.entity dt { color: var(--faint); overflow-wrap: anywhere; }
.entity dd { margin: 0; }
.entity ul { margin: .2rem 0 0; padding-left: 1.2rem; }
.meter { display: inline-block; width: 6rem; height: .5rem; border-radius: 3px;
  background: var(--line); vertical-align: middle; margin-right: .4rem; overflow: hidden; }
.meter i { display: block; height: 100%; background: var(--bar); }
footer { margin-top: 2.5rem; color: var(--faint); font-size: .87rem; }
@media print { :root { --ink: #000; --faint: #444; --line: #bbb; --ground: #fff; --card: #fff;
    --bar: #4477aa; --point: #c2475b; color-scheme: light; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  h2 { break-after: avoid; } tr, svg, .tile, .keep { break-inside: avoid; }
  .pair.wide { display: block; }
  svg .bar, svg .point, .meter, .meter i { print-color-adjust: exact;
    -webkit-print-color-adjust: exact; }
  .scroll { overflow: visible; } }
"""
