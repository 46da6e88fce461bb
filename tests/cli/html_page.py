"""Uses report pages as a reader does, in headless Chromium: html_page.py FOLDER.

FOLDER has bug.html, a verdict with findings, and steps.html, of several steps. Prints "no browser: ..."
where Chromium or python3-selenium are missing, "ok" after the last click, else what is wrong.
"""
import json
import re
import shutil
import sys
import time
from pathlib import Path

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.select import Select
except ImportError:
    print("no browser: python3-selenium is not installed")
    sys.exit(0)
if not (shutil.which("chromium") and shutil.which("chromedriver")):
    print("no browser: chromium-driver is not installed")
    sys.exit(0)

folder = Path(sys.argv[1])
options = webdriver.ChromeOptions()
options.binary_location = shutil.which("chromium")
for argument in ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1300,1000"]:
    options.add_argument(argument)
options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
driver = webdriver.Chrome(service=webdriver.chrome.service.Service(shutil.which("chromedriver")),
                          options=options)


def by_id(name):
    return driver.find_element(By.ID, name)


def rows():
    return driver.find_elements(By.CSS_SELECTOR, "#rows tr")


def name():
    return by_id("name").text


def look_for(text):
    by_id("filter").send_keys(Keys.CONTROL, "a")
    by_id("filter").send_keys(Keys.DELETE, text)


def look_at_a_bug():
    driver.get((folder / "bug.html").as_uri())
    assert "FAIL" in by_id("headline").text, by_id("headline").text
    blamed = by_id("blame").find_element(By.TAG_NAME, "a").text
    assert name() == blamed, "the blamed tensor is not open"
    assert driver.find_elements(By.CSS_SELECTOR, ".bars i.wrong"), "nothing is drawn above its tolerance"
    assert "this fits every element" in by_id("tensor").text
    assert not by_id("previous").is_enabled(), "there is one before the first offender"
    by_id("next").click()
    second = name()
    assert second != blamed
    by_id("previous").click()
    assert name() == blamed
    look_for("norm1.weight")
    assert rows() and all("norm1.weight" in r.text for r in rows())
    by_id("wrong").click()
    assert rows() and all("wrong" in r.get_attribute("class") for r in rows())
    look_for("m0/")
    Select(by_id("order")).select_by_value("ratio")
    ratios = [r.find_elements(By.TAG_NAME, "td")[2].text for r in rows()]
    numbers = [float("inf") if x == "exact" else float(x) for x in ratios]
    assert numbers == sorted(numbers, reverse=True) and len(numbers) > 5, numbers
    rows()[3].click()
    assert name() in rows()[3].text
    look_for("")
    by_id("wrong").click()
    cell = driver.find_elements(By.CSS_SELECTOR, "#map .cell")[7]
    label = cell.get_attribute("aria-label")
    cell.click()
    assert name() == label
    driver.find_element(By.XPATH, "//div[@id='tree']//a[text()='head']").click()
    assert rows() and all(re.search(r"(^|/)head[./]", r.text.split()[0]) for r in rows())


def look_in_the_dark():
    def background(scheme):
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})
        return driver.execute_script("return getComputedStyle(document.body).backgroundColor")

    assert background("light") != background("dark")


def look_at_steps():
    driver.get((folder / "steps.html").as_uri())
    buttons = by_id("steps").find_elements(By.TAG_NAME, "button")
    assert [b.text for b in buttons] == ["step 1", "step 2"], by_id("steps").text
    assert "step" in by_id("map-title").text
    buttons[1].click()
    assert not by_id("steps").find_elements(By.TAG_NAME, "button")[1].is_enabled()
    assert rows()


def open_with(names, wrong):
    """The page of the bug with other tensors, these of which are found."""
    page = (folder / "bug.html").read_text()
    start = page.index(">", page.index('id="data"')) + 1
    end = page.index("</script>", start)
    data = json.loads(page[start:end])
    step = data["steps"][0]
    step["tensors"] = [[name, "norm", i / 2e4, 0.01, 0.5] for i, name in enumerate(names)]
    found = step["tensors"][wrong]
    step["blamed"] = found[0][0]
    step["findings"] = [{"id": t[0], "statistic": "norm", "ratio": 3.0, "detail": "</script><b>bold"} for t in found]
    text = json.dumps(data).replace("<", "\\u003c")
    (folder / "other.html").write_text(page[:start] + text + page[end:])
    driver.get((folder / "other.html").as_uri())


def look_at_layers_of_others():
    """A layer is the first number that is a name."""
    open_with(["m0/words/out", "m0/blocks.0.mlp.experts.3/out", "m0/blocks.1.mlp.experts.3/out", "m0/net.1/out"], slice(1, 2))
    assert [h.text for h in driver.find_elements(By.CSS_SELECTOR, "#map tr:first-child th")] == ["", "none", "0", "1"]
    lines = driver.find_elements(By.CSS_SELECTOR, "#map tr")[1:]
    assert [line.text.strip() for line in lines] == ["words/out", "blocks.mlp.experts.3/out", "net/out"]


def look_at_many():
    """20,000 tensors, some of which are wrong, with names that would be markup if they could."""
    began = time.time()
    open_with([f"m0/layers.{i % 80}.mlp.t{i}/<b>out" for i in range(20000)], slice(100, 140))
    assert len(rows()) == 200 and by_id("shown").text == "200 of 20000", by_id("shown").text
    by_id("more").click()
    assert len(rows()) == 1200
    by_id("wrong").click()
    assert len(rows()) == 40
    assert not driver.find_elements(By.CSS_SELECTOR, "#tensor b b, #rows b"), "a name became markup"
    assert time.time() - began < 60, "a page of 20,000 tensors takes a minute"


try:
    outside = re.findall(r"(?:src|href)=.?https?:", (folder / "bug.html").read_text())
    assert not outside, outside
    for look in [look_at_a_bug, look_in_the_dark, look_at_steps, look_at_layers_of_others, look_at_many]:
        look()
    errors = [line for line in driver.get_log("browser") if line["level"] == "SEVERE"]
    assert not errors, errors
finally:
    driver.quit()
print("ok")
