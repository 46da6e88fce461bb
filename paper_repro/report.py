#!/usr/bin/python3
"""A report of the claims, as HTML and PDF: `./run paper` makes it.

    report.py PLUMB FOLDER [--rows DIR]

Claims are judged by the committed rows, and beside them by those of DIR. Into FOLDER go report.html with its pictures, and
report.pdf where weasyprint is installed.
"""
import argparse
import html
import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "experiments/results"
STYLE = """
@page { size: A4; margin: 18mm 16mm; @bottom-right { content: counter(page); font-size: 9px; } }
body { font: 14px/1.5 'DejaVu Sans', Arial, sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 1em; color: #222; }
h1 { font-size: 24px; } h2 { font-size: 18px; margin-top: 2.2em; border-top: 1px solid #ccc; padding-top: .8em; }
h1, h2, dt, summary, figcaption { break-after: avoid; }
tr, dl, figure { break-inside: avoid; }
table { border-collapse: collapse; margin: 1em 0; font-size: 12px; width: 100%; } table.long { font-size: 10px; }
thead { display: table-header-group; }
th, td { border-bottom: 1px solid #ddd; padding: 3px 8px; text-align: left; vertical-align: top; overflow-wrap: break-word; }
th { border-bottom: 2px solid #888; }
dt { font-weight: bold; float: left; clear: left; width: 8.5em; } dd { margin-left: 9em; }
figure { margin: 1em 0; } img { max-width: 100%; } figcaption { color: #555; }
.yes { color: #00622b; } .no { color: #b00020; } .but { color: #8a4b00; } .none { color: #666; }
details > summary { cursor: pointer; }
@media print {
  body { font-size: 10px; margin: 0; padding: 0; max-width: none; } table { font-size: 8px; } table.long { font-size: 6.5px; }
  table.long th, table.long td { padding: 1px 4px; }
}
"""
LONG = 24  # rows from which on a table is set smaller
OUTCOMES = {"holds": "holds", "accuses": "holds, but its rule accuses healthy runs", "partly": "partly", "no": "no",
            "none": "not measured"}
COLOURS = {"holds": "yes", "accuses": "but", "partly": "but", "no": "no", "none": "none"}
KINDS = {"E": "E: of the paper", "S": "S: a stress case that its authors reported", "B": "B: beyond the paper"}


def claims(plumb, *more):
    said = subprocess.run([plumb, "paper", "--json", *more], capture_output=True, text=True)
    if said.returncode == 3:
        sys.exit(f"report.py: {more[-1] if more else 'this program'} has no rows that measure a claim")
    if said.returncode:
        sys.exit(f"report.py: {plumb} paper: {said.stderr.strip()}")
    return json.loads(said.stdout)["claims"]


def outcome(claim):
    """One of OUTCOMES. A claim that does not hold does not, whomever its rule accuses."""
    if not claim["measured"]:
        return "none"
    word = re.match("yes|partly|no", claim["agrees"])[0]
    if word == "yes":
        return "accuses" if claim["agrees"].startswith("yes, but") else "holds"
    return word


def verdict(claim):
    return f'<span class="{COLOURS[outcome(claim)]}">{html.escape(claim["agrees"])}</span>'


def summary(groups):
    """A table: of each (name, claims) how many have which outcome."""
    rows = []
    for name, some in groups:
        found = [outcome(claim) for claim in some]
        rows.append([name, len(found), *(found.count(kind) for kind in OUTCOMES)])
    return table(["", "claims", *OUTCOMES.values()], rows)


def table(heading, rows):
    """Of cells in HTML. A printed heading stands on each page, which only a head does."""
    line = lambda cells, tag: "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"
    kind = ' class="long"' if len(rows) > LONG else ""
    return f"<table{kind}><thead>{line(heading, 'th')}</thead><tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"


def cells_of(lines):
    """Of a Markdown table but its line of dashes; its cells have no marks of their own."""
    lines = [[html.escape(cell.strip(" |")) for cell in line.strip("|").split(" | ")] for line in lines]
    return [lines[0], *lines[2:]]


def details_of(markdown):
    """Its tables and what stands between them, and how many rows they have."""
    out, total = [], 0
    for is_table, lines in itertools.groupby(filter(None, markdown.splitlines()), lambda line: line.startswith("|")):
        if is_table:
            heading, *rows = cells_of(lines)
            total += len(rows)
            out.append(table(heading, rows))
        else:
            out.append(f"<p>{html.escape(' '.join(lines))}</p>")
    return "".join(out), total


def overview(all_claims, own):
    heading = ["", "claim", "published", "ours", "agrees"] + (["by your rows"] if own else [])
    rows = []
    for claim in all_claims:
        cells = [f'<a href="#{claim["id"]}">{claim["id"]}</a>']
        cells += [html.escape(claim[field]) for field in ("claim", "published", "ours")] + [verdict(claim)]
        if own:
            mine = own[claim["id"]]
            cells.append(verdict(mine) + (": " + html.escape(mine["ours"]) if mine["measured"] else ""))
        rows.append(cells)
    return table(heading, rows)


def made(rows):
    facts = rows["provenance"]
    if not rows["count"]:
        return f'none of {rows["question"]}'
    if not facts:
        return f'{rows["question"]}.csv, {rows["count"]} rows; who made them is not said'
    return f'{rows["question"]}.csv, {rows["count"]} rows, made by: {facts.get("command", "not said")}; commit ' \
           f'{facts.get("commit", "not said")}, {facts.get("device", "not said")}'


def how_many_of(claim, own):
    """"112 of 9720 rows" for each question."""
    return ", ".join(f'{mine["count"]} of {rows["count"]} rows of {rows["question"]}'
                     for rows, mine in zip(claim["rows"], own["rows"]))


def about_own(all_claims, own, folder):
    """What a reader has to know before a verdict of theirs is held against the committed one."""
    measured = [claim for claim in all_claims if own[claim["id"]]["measured"]]
    fewer = [claim["id"] for claim in measured
             if any(mine["count"] < rows["count"] for rows, mine in zip(claim["rows"], own[claim["id"]]["rows"]))]
    makers = {(rows["provenance"].get("commit", "not said"), rows["provenance"].get("device", "not said"))
              for claim in measured for rows in own[claim["id"]]["rows"]}
    by = "; ".join(f"commit {commit} on {device}" for commit, device in sorted(makers))
    out = [f"<h2>Your rows</h2><p>They lie in {html.escape(str(folder))} and were made by {html.escape(by)}.</p>",
           summary([("by your rows", own.values()), ("by the committed rows", all_claims)]), "<p>"]
    if fewer:
        out.append(f"For {len(fewer)} of {len(measured)} claims that yours measure they are fewer than the committed ones, as those of <code>--smoke</code> are: too few "
                   "to settle what the committed rows settle, so a verdict may differ by what was left out alone. ")
    differ = [claim for claim in measured if outcome(claim) != outcome(own[claim["id"]])]
    if not differ:
        return "".join(out) + "No verdict differs from that of the committed rows.</p>"
    rows = [[f'<a href="#{claim["id"]}">{claim["id"]}</a>', verdict(claim), verdict(own[claim["id"]]),
             html.escape(how_many_of(claim, own[claim["id"]]))] for claim in differ]
    return "".join(out) + "These verdicts differ:</p>" + table(["claim", "by the committed rows", "by yours", "yours are"], rows)


FONT = re.compile(r"font: (?:(\d+) )?([\d.]+px) ([^;\"]+)")


def printable(svg):
    """Texts with the size, weight and family that `font` names in one: a printer that does not know it sets 16 px."""
    return FONT.sub(lambda m: f"font-size: {m[2]}; font-weight: {m[1] or 400}; font-family: {m[3]}", svg)


def figures(claim, folder, shown):
    """The claim's pictures, or where they stand; `shown`: of which claim each picture is already."""
    out = []
    for picture in sorted(RESULTS.glob("*/" + claim["picture"])) if claim["picture"] else []:
        if picture in shown:
            out.append(f'<p>Picture: see <a href="#{shown[picture]}">{shown[picture]}</a>.</p>')
            continue
        shown[picture] = claim["id"]
        (folder / picture.name).write_text(printable(picture.read_text(encoding="utf-8")), encoding="utf-8")
        out.append(f'<figure><img src="{picture.name}" alt="{html.escape(claim["claim"])}"><figcaption>Drawn of the committed '
                   f"rows of {picture.parent.name}.</figcaption></figure>")
    return "".join(out)


def section(claim, own, folder, shown):
    facts = [("known from", f'{claim["source"]}: {claim["where"]}'), ("published", claim["published"]),
             ("reading", claim["reading"]), ("ours", claim["ours"])]
    facts += [("rows", made(rows)) for rows in claim["rows"]]
    out = [f'<h2 id="{claim["id"]}">{claim["id"]}: {html.escape(claim["claim"])}</h2><dl>']
    out += [f"<dt>{name}</dt><dd>{html.escape(words)}</dd>" for name, words in facts]
    out.append(f"<dt>agrees</dt><dd>{verdict(claim)}</dd>")
    if own and own["measured"]:
        out.append(f'<dt>by your rows</dt><dd>{verdict(own)}: {html.escape(own["ours"])} ({html.escape(how_many_of(claim, own))})'
                   f'</dd>')
        out += [f"<dt>your rows</dt><dd>{html.escape(made(rows))}</dd>" for rows in own["rows"]]
    out.append("</dl>" + figures(claim, folder, shown))
    if claim["details"]:
        text, total = details_of(claim["details"])
        out.append(f"<details{'' if total > LONG else ' open'}><summary>{total} rows</summary>{text}</details>")
    return "".join(out)


def page_of(all_claims, own, rows, folder):
    groups = [(words, [claim for claim in all_claims if claim["id"].startswith(kind)]) for kind, words in KINDS.items()]
    page = [f"<!doctype html><html lang=en><meta charset=utf-8><title>plumbline: the paper, claim by claim</title>"
            f"<style>{STYLE}</style><body><h1>The TTrace paper, claim by claim, and what goes beyond it</h1>"
            "<p>How many claims hold, by the committed rows:</p>", summary([*groups, ("all", all_claims)]),
            "<p>The paper is arXiv 2506.09280, whose body is not at hand; each claim says from where it is known and what was "
            "chosen where that is silent. Every verdict is computed from rows. Where a claim is about a rule, <em>accuses</em> "
            "says how many healthy runs that rule accuses; behind a <em>but</em> they are more than 5 in 100 beyond doubt.</p>",
            about_own(all_claims, own, rows) if own else "", "<h2>All claims</h2>", overview(all_claims, own)]
    shown = {}
    page += [section(claim, own.get(claim["id"]), folder, shown) for claim in all_claims]
    return "\n".join(page) + "</body></html>\n"


def print_pdf(report):
    """A printed page opens nothing: all rows are shown."""
    printed, pdf = report.with_name("printed.html"), report.with_suffix(".pdf")
    printed.write_text(report.read_text(encoding="utf-8").replace("<details>", "<details open>"), encoding="utf-8")
    subprocess.run(["weasyprint", "--quiet", printed, pdf], check=True)
    printed.unlink()
    print(pdf)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plumb")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rows")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    own = {claim["id"]: claim for claim in claims(asked.plumb, "--rows", asked.rows)} if asked.rows else {}
    report = asked.folder / "report.html"
    report.write_text(page_of(claims(asked.plumb), own, asked.rows, asked.folder), encoding="utf-8")
    print(report)
    if shutil.which("weasyprint"):
        print_pdf(report)
    else:
        print("no report.pdf: weasyprint is not installed; apt-get install weasyprint")


if __name__ == "__main__":
    main()
