#!/usr/bin/python3
"""A report of the claims, as HTML and PDF: `./run paper` makes it.

    report.py PLUMB FOLDER [--rows DIR]

Claims are judged by the committed rows, and beside them by those of DIR. Into FOLDER go report.html with its pictures, and
report.pdf where weasyprint is installed.
"""
import argparse
import html
import json
import pathlib
import shutil
import subprocess
import sys

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "experiments/results"
STYLE = """
@page { size: A4; margin: 18mm 16mm; @bottom-right { content: counter(page); font: 9px sans-serif; } }
body { font: 14px/1.5 'DejaVu Sans', Arial, sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 1em; color: #222; }
h1 { font-size: 24px; } h2 { font-size: 18px; margin-top: 2.2em; border-top: 1px solid #ccc; padding-top: .8em; }
table { border-collapse: collapse; margin: 1em 0; font-size: 12px; width: 100%; }
th, td { border-bottom: 1px solid #ddd; padding: 3px 8px; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #888; }
dt { font-weight: bold; float: left; clear: left; width: 8.5em; } dd { margin-left: 9em; }
img { max-width: 100%; } .yes { color: #00622b; } .no { color: #b00020; } .but { color: #8a4b00; } .none { color: #666; }
details > summary { cursor: pointer; }
@media print { body { font-size: 10px; margin: 0; max-width: none; } table { font-size: 8px; } h2 { break-after: avoid; } }
"""


def claims(plumb, *more):
    said = subprocess.run([plumb, "paper", "--json", *more], capture_output=True, text=True)
    if said.returncode:
        sys.exit(f"report.py: {plumb} paper: {said.stderr.strip()}")
    return json.loads(said.stdout)["claims"]


def verdict(claim):
    if not claim["measured"]:
        kind = "none"
    elif ", but" in claim["agrees"]:
        kind = "but"
    else:
        kind = "yes" if claim["agrees"].startswith("yes") else "no" if claim["agrees"].startswith("no") else "but"
    return f'<span class="{kind}">{html.escape(claim["agrees"])}</span>'


def table_of(markdown):
    """A Markdown table as HTML; its cells have no marks of their own."""
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in markdown.strip().splitlines()]
    row = lambda cells, tag: "<tr>" + "".join(f"<{tag}>{html.escape(cell.strip(' |'))}</{tag}>" for cell in cells) + "</tr>"
    return "<table>" + row(lines[0], "th") + "".join(row(cells, "td") for cells in lines[2:]) + "</table>"


def overview(all_claims, own):
    heading = ["", "claim", "published", "ours", "agrees"] + (["by your rows"] if own else [])
    out = ["<table><tr>", *(f"<th>{h}</th>" for h in heading), "</tr>"]
    for claim in all_claims:
        cells = [f'<a href="#{claim["id"]}">{claim["id"]}</a>']
        cells += [html.escape(claim[field]) for field in ("claim", "published", "ours")] + [verdict(claim)]
        if own:
            mine = own[claim["id"]]
            cells.append(verdict(mine) + (": " + html.escape(mine["ours"]) if mine["measured"] else ""))
        out.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return "".join(out) + "</table>"


def section(claim, own, folder):
    facts = [("known from", f'{claim["source"]}: {claim["where"]}'), ("published", claim["published"]),
             ("reading", claim["reading"]), ("ours", claim["ours"])]
    for rows in claim["rows"]:
        made = rows["provenance"]
        facts.append(("rows", f'{rows["question"]}.csv, made by: {made.get("command", "not said")}; commit '
                              f'{made.get("commit", "not said")}, {made.get("device", "not said")}'))
    out = [f'<h2 id="{claim["id"]}">{claim["id"]}: {html.escape(claim["claim"])}</h2><dl>']
    out += [f"<dt>{name}</dt><dd>{html.escape(words)}</dd>" for name, words in facts]
    out.append(f"<dt>agrees</dt><dd>{verdict(claim)}</dd>")
    if own and own["measured"]:
        out.append(f'<dt>by your rows</dt><dd>{verdict(own)}: {html.escape(own["ours"])}</dd>')
    out.append("</dl>")
    for picture in RESULTS.glob("*/" + claim["picture"]) if claim["picture"] else []:
        shutil.copy(picture, folder / picture.name)
        out.append(f'<img src="{picture.name}" alt="{html.escape(claim["claim"])}">')
    if claim["details"]:
        table, lines = table_of(claim["details"]), claim["details"].count("\n")
        out.append(f"<details{'' if lines > 30 else ' open'}><summary>{lines - 2} rows</summary>{table}</details>")
    return "".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plumb")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rows")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    all_claims = claims(asked.plumb)
    own = {claim["id"]: claim for claim in claims(asked.plumb, "--rows", asked.rows)} if asked.rows else {}
    counts = {word: sum(claim["agrees"].startswith(word) for claim in all_claims) for word in ("yes", "partly", "no", "not")}
    page = [f"<!doctype html><html lang=en><meta charset=utf-8><title>plumbline: the paper, claim by claim</title>"
            f"<style>{STYLE}</style><body><h1>The TTrace paper, claim by claim, and what goes beyond it</h1>"
            f"<p>{len(all_claims)} claims: {counts['yes']} hold, {counts['partly']} partly, "
            f"{counts['no'] - counts['not']} do not, {counts['not']} are not measured. E: of the paper (arXiv 2506.09280), "
            "whose body is not at hand; each claim says from where it is known and what was chosen where that is silent. "
            "S: a stress case that its authors reported. B: goes beyond. Every verdict is computed from rows.</p>",
            overview(all_claims, own)]
    page += [section(claim, own.get(claim["id"]), asked.folder) for claim in all_claims]
    report = asked.folder / "report.html"
    report.write_text("\n".join(page) + "</body></html>\n", encoding="utf-8")
    print(report)
    if shutil.which("weasyprint"):
        pdf = asked.folder / "report.pdf"
        # A printed page opens nothing: all rows are shown.
        printed = asked.folder / "printed.html"
        printed.write_text(report.read_text(encoding="utf-8").replace("<details>", "<details open>"), encoding="utf-8")
        subprocess.run(["weasyprint", "--quiet", printed, pdf], check=True)
        printed.unlink()
        print(pdf)
    else:
        print("no report.pdf: weasyprint is not installed; apt-get install weasyprint")


if __name__ == "__main__":
    main()
