#!/usr/bin/python3
"""Does the report of the claims say what their verdicts are, and can its pictures be printed?"""
import pathlib
import re
import sys
import tempfile
import unittest

HOME = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(HOME / "paper_repro"))
import report

VERDICTS = {"yes": "holds", "yes; accuses 0 of 7 healthy runs": "holds", "yes, but accuses 14 of 40 healthy runs": "accuses",
            "partly": "partly", "partly, but accuses 50 of 540 healthy runs": "partly", "no": "no",
            "no, but accuses 32 of 32 healthy runs": "no"}


def claim(name, agrees="yes", measured=True, picture="", count=5, details="| a |\n|---|\n| 1 |\n"):
    rows = [{"question": "q", "count": count, "provenance": {"command": "made", "commit": "c0ffee", "device": "a machine"}}]
    return {"id": name, "claim": "says", "published": "p", "reading": "r", "ours": "o", "agrees": agrees, "measured": measured,
            "source": "s", "where": "w", "picture": picture, "rows": rows, "details": details}


def page(all_claims, own=()):
    with tempfile.TemporaryDirectory() as folder:
        return report.page_of(all_claims, {c["id"]: c for c in own}, "mine", pathlib.Path(folder))


class Report(unittest.TestCase):
    def test_a_claim_that_does_not_hold_is_red_whomever_its_rule_accuses(self):
        for words, outcome in VERDICTS.items():
            self.assertEqual(report.outcome(claim("E1", words)), outcome, words)
        self.assertEqual(report.outcome(claim("E1", "not measured", measured=False)), "none")
        self.assertIn('class="no"', report.verdict(claim("E1", "no, but accuses 32 of 32 healthy runs")))
        self.assertIn('class="but"', report.verdict(claim("E1", "yes, but accuses 14 of 40 healthy runs")))

    def test_each_outcome_is_counted_once(self):
        text = report.summary([("all", [claim("E1", words) for words in VERDICTS])])
        self.assertIn("<td>all</td><td>7</td><td>2</td><td>1</td><td>2</td><td>2</td><td>0</td>", text)

    def test_pictures_name_no_font_in_one_word(self):
        for picture in report.RESULTS.glob("*/*.svg"):
            before = picture.read_text(encoding="utf-8")
            after = report.printable(before)
            self.assertEqual(len(re.findall(r"\bfont:", after)), 0, picture)
            self.assertEqual(after.count("font-size:"), len(re.findall(r"\bfont:", before)), picture)
            self.assertGreater(after.count("font-size:"), 0, picture)
        self.assertEqual(report.printable("font: 700 8px 'A', 'B'; text-anchor: end"),
                         "font-size: 8px; font-weight: 700; font-family: 'A', 'B'; text-anchor: end")

    def test_a_picture_stands_once_and_says_of_which_rows_it_is(self):
        text = page([claim("E2", picture="paper-bugs.svg"), claim("E7", picture="paper-bugs.svg")])
        self.assertEqual(text.count("<img"), 1)
        self.assertIn('Picture: see <a href="#E2">E2</a>', text)
        self.assertEqual(text.count("<figcaption>Drawn of the committed rows of "), 1)

    def test_heads_repeat_and_long_tables_are_small(self):
        text = page([claim("E2")])
        self.assertEqual(text.count("<table"), text.count("<table><thead><tr>"))
        text = report.details_of("| a |\n|---|\n" + "| 1 |\n" * (report.LONG + 1))
        self.assertIn('<table class="long"><thead>', text[0])
        self.assertEqual(text[1], report.LONG + 1)

    def test_details_of_two_tables_are_two(self):
        text, rows = report.details_of("First:\n\n| a |\n|---|\n| 1 |\n\nSecond:\n\n| b |\n|---|\n| 2 |\n| 3 |\n")
        self.assertEqual((text.count("<table"), text.count("---"), rows), (2, 0, 3))
        self.assertIn("<p>Second:</p>", text)

    def test_own_rows_have_their_number_and_the_verdicts_that_differ(self):
        all_claims = [claim("E1"), claim("E2"), claim("E3")]
        own = [claim("E1", "no", count=2), claim("E2", count=2), claim("E3", "not measured", measured=False, count=0)]
        text = page(all_claims, own)
        about = text[text.index("Your rows"):text.index("All claims")]
        for part in ["lie in mine", "commit c0ffee on a machine", "For 2 of 2 claims", '<a href="#E1">', "2 of 5 rows of q"]:
            self.assertIn(part, about)
        self.assertNotIn('<a href="#E2">', about)
        self.assertIn("No verdict differs", page(all_claims, [claim("E1"), claim("E2"), claim("E3")]))


if __name__ == "__main__":
    unittest.main()
