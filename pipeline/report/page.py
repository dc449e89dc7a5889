"""Facts, alarms and pictures -> one HTML page: no script, no network, readable on a phone."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from pipeline.report.alarms import Alarm
from pipeline.report.charts import bars, histogram, number
from pipeline.report.drawn import Picture, Pictures
from pipeline.report.facts import Facts, LabelTable, all_labels

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --bad: #d55e00; --good: #009e73; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1100px; padding: 0 16px 4em; }
h1 { font-size: 1.5em; margin: 1em 0 .2em; } h2 { font-size: 1.2em; margin: 2em 0 .5em; }
h3 { font-size: 1em; margin: 1.2em 0 .4em; } p { margin: .4em 0; }
nav { margin: 1em 0; display: flex; flex-wrap: wrap; gap: .2em 1em; } .note { opacity: .75; }
.tiles { display: grid; gap: 10px; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); }
.tile { background: var(--soft); border-radius: 8px; padding: 8px 12px; }
.tile b { display: block; font-size: 1.4em; }
.pictures { display: grid; gap: 10px; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); }
.pairs { grid-template-columns: 1fr 1fr; max-width: 760px; }
.wide { grid-template-columns: repeat(auto-fill, minmax(240px, 1fr)); }
figure { margin: 0; } figcaption { font-size: .8em; overflow-wrap: anywhere; }
img, svg { display: block; max-width: 100%; height: auto; width: 100%; }
img { background: #fff; border: 1px solid var(--line); border-radius: 4px; }
.charts { display: grid; gap: 14px; grid-template-columns: repeat(auto-fill, minmax(280px, 1fr)); }
.chart figcaption { font-size: .9em; font-weight: 600; }
svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
.axis { stroke: currentColor; opacity: .5; } .empty { fill: currentColor; opacity: .12; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9em; }
td, th { border-bottom: 1px solid var(--line); padding: 3px 10px 3px 0; text-align: left;
  vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
code, pre { font: .88em ui-monospace, monospace; overflow-wrap: anywhere; }
pre { overflow-x: auto; background: var(--soft); padding: 8px; border-radius: 6px; }
.alarm { border-left: 4px solid var(--bad); background: var(--soft); margin: 8px 0; padding: 6px 12px; }
.sound { border-left: 4px solid var(--good); background: var(--soft); padding: 6px 12px; }
"""  # noqa: E501


def page(facts: Facts, alarms: Sequence[Alarm], pictures: Pictures) -> str:
    """The whole document."""
    sections = [
        ("alarms", "Alarms", _alarms(alarms)),
        ("failures", "Outcomes and failures", _failures(facts)),
        ("scenes", "Scenes", _scenes(pictures)),
        ("crop", "Before and after the crop", _crops(pictures)),
        ("grasps", "Grasps", _grasps(facts, pictures)),
        ("distributions", "Distributions", _distributions(facts)),
        ("cost", "Throughput and cost", _cost(facts)),
        ("versions", "Versions and digests", _versions(facts)),
    ]
    name = facts.out.resolve().name
    notes = [*facts.notes, *pictures.notes]
    links = "".join(f'<a href="#{key}">{title}</a>' for key, title, _ in sections)
    body = "".join(f'<h2 id="{key}">{title}</h2>{text}' for key, title, text in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(name)}: report</title><style>{STYLE}</style></head><body>"
        f"<h1>{escape(name)}</h1>{_summary(facts)}<nav>{links}</nav>"
        + "".join(f'<p class="note">note: {escape(note)}</p>' for note in _few(notes))
        + body
        + "</body></html>\n"
    )


def _few(notes: Sequence[str], most: int = 8) -> list[str]:
    more = [f"and {len(notes) - most} more"] if len(notes) > most else []
    return [*notes[:most], *more]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """`rows` are HTML already; the columns `numbers` stand at the right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="n">{c}</{tag}>' if i in numbers else f"<{tag}>{c}</{tag}>"
            for i, c in enumerate(row)
        )

    lines = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{cells("th", head)}</tr>{lines}</table></div>'


def _summary(facts: Facts) -> str:
    scenes = {row.scene for row in facts.clouds}
    failed = sum(n for w in facts.work for code, n in w.codes.items() if code != "ok")
    tiles = [
        (f"{facts.clouds_total:,}", "clouds"),
        (
            f"{len(scenes):,}",
            "scenes" if len(facts.clouds) == facts.clouds_total else "scenes read",
        ),
        (f"{len(facts.extents):,}", "objects"),
        (f"{failed:,}", "failed items"),
    ]
    for hand, protocol, tables in all_labels(facts):
        success = np.concatenate([t.success for t in tables])
        share = f"{100 * success.mean():.0f} %" if len(success) else "-"
        tiles.append((share, f"of {len(success):,} grasps: {hand}, {protocol}"))
    inner = "".join(
        f'<div class="tile"><b>{escape(value)}</b>{escape(what)}</div>' for value, what in tiles
    )
    return f'<div class="tiles">{inner}</div>'


def _alarms(alarms: Sequence[Alarm]) -> str:
    if not alarms:
        return (
            '<p class="sound">None: success rates, clouds, columns, cameras and scales are within '
            "what is to be expected.</p>"
        )
    return "".join(
        f'<div class="alarm" data-kind="{a.kind}"><b>{escape(a.what)}</b>'
        f"<p>What to do: {escape(a.do)}</p></div>"
        for a in alarms
    )


def _failures(facts: Facts) -> str:
    rows: list[list[str]] = []
    for work in facts.work:
        for code, count in sorted(work.codes.items(), key=lambda pair: (pair[0] != "ok", pair)):
            shown = "".join(
                f"<div><code>{escape(item)}</code> {escape(message[:300])}</div>"
                for item, message in work.examples.get(code, ())
            )
            rows.append([escape(work.name), f"<code>{escape(code)}</code>", f"{count:,}", shown])
    if not rows and facts.manifest is not None:
        for name, codes in facts.manifest.get("outcomes", {}).items():
            rows += [[escape(name), f"<code>{escape(c)}</code>", f"{n:,}", ""]
                     for c, n in codes.items()]  # fmt: skip
    if not rows:
        return "<p>Nothing was made yet.</p>"
    return _table(["stage", "code", "items", "examples"], rows, numbers=(2,))


def _figures(pictures: Iterable[Picture], kind: str = "") -> str:
    inner = "".join(
        f'<figure><img src="{uri}" alt="{escape(caption, quote=True)}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
        for uri, caption in pictures
    )
    return f'<div class="pictures {kind}">{inner}</div>'


def _scenes(pictures: Pictures) -> str:
    if not pictures.scenes:
        return "<p>No cloud to draw.</p>"
    said = "<p>One view a scene, from where its camera stood. Each object has a colour.</p>"
    return said + _figures(pictures.scenes, "wide")


def _crops(pictures: Pictures) -> str:
    if not pictures.crops:
        return "<p>Drawn when there is a dataset.</p>"
    flat = [picture for pair in pictures.crops for picture in pair]
    return (
        "<p>Left what exact rays of the same camera see, right the stored cloud, with the noise of "
        "the sensor where there is one.</p>" + _figures(flat, "pairs")
    )


def _grasps(facts: Facts, pictures: Pictures) -> str:
    parts: list[str] = []
    for hand, protocol, tables in all_labels(facts):
        codes = Counter(np.concatenate([t.outcome for t in tables]).tolist())
        parts.append(
            f"<h3>{escape(hand)} under {escape(protocol)}</h3>"
            + _table(["outcome", "grasps"],
                     [[f"<code>{escape(c)}</code>", f"{n:,}"] for c, n in codes.most_common()],
                     numbers=(1,))
        )  # fmt: skip
        passed, failed = pictures.grasps.get((hand, protocol), ([], []))
        for what, some in (("Passed", passed), ("Failed", failed)):
            if some:
                parts.append(f"<p>{what}, the hand at its squeeze pose:</p>{_figures(some)}")
    return "".join(parts) or "<p>No labelled grasp.</p>"


def _distributions(facts: Facts) -> str:
    rows = facts.clouds
    charts = [
        histogram("points per cloud", np.array([row.points for row in rows])),
        histogram("points before sampling", np.array([row.valid for row in rows])),
        histogram("view distance", np.array([row.distance for row in rows]), "m"),
    ]
    charts += [
        histogram(f"visible share of contacts, {hand}", share)
        for hand, share in sorted(facts.visibility.items())
    ]
    for hand, protocol, tables in all_labels(facts):
        if all("hand_object_penetration" in t.columns for t in tables):
            depth = np.concatenate([t.columns["hand_object_penetration"] for t in tables])
            charts.append(histogram(f"penetration, {hand}, {protocol}", 1000 * depth, "mm"))
    charts += [_by_object(h, p, tables) for h, p, tables in all_labels(facts)]
    few = ""
    if len(rows) < facts.clouds_total:
        few = f"<p>From {len(rows):,} of {facts.clouds_total:,} clouds.</p>"
    if not facts.visibility:
        few += '<p class="note">Visibility is not stored; shard.visibility: true adds it.</p>'
    return few + f'<div class="charts">{"".join(charts)}</div>'


def _by_object(hand: str, protocol: str, tables: Sequence[LabelTable]) -> str:
    names = np.concatenate([t.object_ids for t in tables])
    success = np.concatenate([t.success for t in tables])
    rows = [
        (str(name), float(success[names == name].mean()),
         f"{int(success[names == name].sum())} of {int((names == name).sum())}")
        for name in np.unique(names)
    ]  # fmt: skip
    return bars(f"success per object, {hand}, {protocol}", rows)


def _cost(facts: Facts) -> str:
    rows: list[list[str]] = []
    for work in facts.work:
        if not work.items:
            continue
        rate = f"{work.items / work.seconds:.3g}/s" if work.seconds else "-"
        rows.append([escape(work.name), f"{work.items:,}", f"{work.seconds:,.1f}", rate,
                     f"{work.size / 1e6:,.1f}"])  # fmt: skip
    if not rows:
        return "<p>The blocks are not here, so neither is their time.</p>"
    total = sum(work.seconds for work in facts.work)
    head = ["stage", "items", "worker seconds", "rate of a worker", "MB of blocks"]
    return (
        _table(head, rows, numbers=(1, 2, 3, 4))
        + f"<p>{number(total / 3600)} hours of one worker in all. Times are the workers' own, so "
        "they do not depend on how many there were.</p>"
    )


def _versions(facts: Facts) -> str:
    manifest: dict[str, Any] = facts.manifest or {}
    rows: list[list[str]] = []
    for key in ("schema_version", "seed", "crop_digest", "publish_key"):
        if key in manifest:
            rows.append([key, f"<code>{escape(str(manifest[key]))}</code>"])
    rows += [[f"protocol {escape(k)}", f"<code>{escape(v)}</code>"]
             for k, v in manifest.get("protocols", {}).items()]  # fmt: skip
    rows += [["engine", escape(e)] for e in manifest.get("engines", ())]
    rows += [[escape(k), escape(v)] for k, v in manifest.get("versions", {}).items()]
    text = _table(["what", "value"], rows) if rows else "<p>They come with the dataset.</p>"
    config = manifest.get("config") or facts.run_config
    if config is not None:
        shown = escape(json.dumps(config, indent=1, sort_keys=True))
        text += f"<details><summary>Resolved config</summary><pre>{shown}</pre></details>"
    return text
