#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks reports in a browser: report.py KIND FILE [FOLDER for screenshots, or axe-core's script]. Prints what failed.

SEDIMENT_BROWSER=firefox drives Firefox in place of Chromium."""

import re
import sys
from webdriver import Browser

NAME = Browser.__name__.lower()

# Time from an event to the frame after the next: what the event changed is on the screen by then.
FRAME = """const [selector, value, done] = arguments; const element = document.querySelector(selector);
const begin = performance.now();
if (value === null) element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
else { element.value = value; element.dispatchEvent(new Event("input", { bubbles: true })); }
requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - begin)));"""
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)


def lit(browser, side):
    return browser.run("return document.querySelectorAll(`[data-side='${arguments[0]}'] .lit`).length", side)


def is_quiet(browser, where):
    for message in browser.complaints():
        failures.append(f"{where}: the console has {message}")


def fits(browser, where):
    wide, inner = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
    check(wide <= inner, f"{where}: the page is {wide} wide in a window of {inner}")


def is_legible(browser, where):
    """No text of a picture is smaller than 10 px, whatever the width."""
    least, what = browser.run("""return [...document.querySelectorAll("main svg text")].map((text) => {
        const svg = text.ownerSVGElement, scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
        return [parseFloat(getComputedStyle(text).fontSize) * scale, `${text.textContent} in ${svg.getAttribute("aria-label")}`];
    }).reduce((least, next) => next[0] < least[0] ? next : least)""")
    check(least > 9.9, f"{where}: {least:.1f} px: {what}")


def scrolls_by_keyboard(browser, where):
    """What scrolls can have the focus."""
    stuck = browser.run("""return [...document.querySelectorAll("main *")].filter((element) =>
        element.scrollWidth > element.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(element).overflowX) && element.tabIndex < 0)
        .map((element) => element.className)""")
    check(not stuck, f"{where}: these scroll without a keyboard: {stuck}")


def use(path, folder):
    """Search, click-through, keyboard, touch, dark, narrow, and without script."""
    with Browser() as browser:
        browser.open(path)
        check(browser.text(".verdict"), "no verdict")
        check(re.search(r"\d+ → \d+ pages? holds? 99 % of the calls", browser.text(".headline")), "no headline")
        browser.press("/", "f2", "Enter")
        check(browser.text("#detail h2") == "f2", f"the very name is not found first, but {browser.text('#detail h2')}")
        browser.press("Escape", "malloc", "Enter")
        check(browser.text("#detail h2") == "malloc", f"malloc is not found first, but {browser.text('#detail h2')}")
        check("98.8 % of all recorded calls" in browser.text("#detail"), f"calls of a library's function: {browser.text('#detail')}")
        browser.run("document.querySelector('[data-l=\"libc.so.6\"]').dispatchEvent(new MouseEvent('click', { bubbles: true }))")
        check("98.8 %" in browser.text("#detail ol li:first-child"), "a library's tile has functions without calls")
        browser.press("Escape")
        browser.run("document.querySelector('[data-kind=flame] [data-f]').dispatchEvent(new MouseEvent('click', { bubbles: true }))")
        check(browser.text("#detail h2") == "main", f"the widest bar is not main, but {browser.text('#detail h2')}")
        link = browser.run("return document.querySelector('#detail .steps a').href")
        check(link.endswith("#function=main") and browser.run("return location.hash") == "#function=main", f"no link to main: {link}")
        browser.press("Escape")
        check(browser.run("return location.hash") == "", "an address without a selection names one")
        browser.run("location.hash = '#function=f180'")
        check(browser.text("#detail h2") == "f180", "an address selects nothing")
        browser.press("Escape", "f180", "ArrowDown", "Enter")
        check("f180" in browser.text("#detail h2"), "search selects no function")
        check(lit(browser, 0) > 0 and lit(browser, 1) > 0, "a function is not lit on both sides")
        check("Callers" in browser.text("#detail") and "main" in browser.text("#detail"), "no callers")
        check("5.00 % of the calls into prog" in browser.text("#detail"), "no share of the calls")
        check("100.0 %" in browser.text("#detail ol li:first-child"), "the only caller has not all calls")
        browser.run("[...document.querySelectorAll('#detail li button')].find((b) => b.innerText.includes('main')).click()")
        check("main" in browser.text("#detail h2") and "Callees" in browser.text("#detail"), "no way to the caller")
        browser.run("document.querySelector('#detail dd button').click()")
        check(browser.text("#detail h2").startswith("Page "), "no way from a function to its page")
        browser.press("Escape")
        check(browser.run("return document.querySelector('#detail').hidden"), "Escape does not close")
        browser.run("document.querySelector('[data-kind=map]').focus()")
        browser.press("ArrowRight")
        check(browser.text("#detail h2").startswith("Page "), "arrows select no page")
        browser.press("Enter")
        check(browser.run("return document.activeElement.id") == "detail", "Enter does not lead to the page")
        for kind in ["zoom", "flame", "uses", "tree"]:
            browser.press("Escape")
            browser.run("document.querySelector(`[data-kind=${arguments[0]}]`).focus()", kind)
            browser.press("ArrowRight", "ArrowRight")
            check(browser.text("#detail h2"), f"arrows select nothing in {kind}")
        tree = browser.accessibility()
        for role, name in [("searchbox", "Find a function"), ("heading", "Heaviest functions"), ("main", ""), ("complementary", "Search and selection")]:
            check(any(r == role and name in n for r, n in tree), f"no {role} {name!r} in the accessibility tree")
        if folder:
            browser.screenshot(f"{folder}/report-wide-{NAME}.png")
        is_legible(browser, "1440 px")
        is_quiet(browser, "wide")
        if NAME == "chromium":
            browser.command("Emulation.setEmulatedMedia", media="print")
            text, cell = browser.run("return ['main p', 'td'].map((of) => parseFloat(getComputedStyle(document.querySelector(of)).fontSize))")
            check(text >= cell, f"print: text of {text} px beside cells of {cell} px")
            fits(browser, "print")
    with Browser(1280) as browser:
        browser.open(path)
        is_legible(browser, "1280 px")
        fits(browser, "1280 px")
    with Browser(360, 740, dark=True, touch=True) as browser:
        browser.open(path)
        check(browser.run("return innerWidth") == 360, "the narrow window is not narrow")
        fits(browser, "narrow")
        is_legible(browser, "narrow")
        scrolls_by_keyboard(browser, "narrow")
        silent = browser.run("""return [...document.querySelectorAll("main *")].filter((element) =>
            element.scrollWidth > element.clientWidth + 4 && /auto|scroll/.test(getComputedStyle(element).overflowX) && !element.classList.contains("goes-on"))
            .map((element) => element.ariaLabel ?? element.className)""")
        check(not silent, f"narrow: these are cut without a cue: {silent}")
        browser.tap("[data-kind=map] [data-p]")
        check(browser.text("#detail h2").startswith("Page "), "a tap selects no page")
        if folder:
            browser.screenshot(f"{folder}/report-narrow-dark-{NAME}.png")
        is_quiet(browser, "narrow")
    with Browser(script=False) as browser:
        browser.open(path)
        tree = browser.accessibility()
        check(any("f180" in name for _, name in tree), "without script, no names of functions")
        check(not any(role == "searchbox" for role, _ in tree), "without script, a search that finds nothing")


def hostile(path, _):
    """Names that try to run, to break out, or to turn the direction of text."""
    with Browser() as browser:
        browser.open(path)
        check(browser.run("return window.broken === undefined && document.title.length > 0"), "a name ran")
        count = browser.run("return document.querySelectorAll('section.program').length")
        check(count == 1, f"{count} programs")
        for at in range(browser.run("return JSON.parse(document.querySelector('.data').textContent).n.length")):
            browser.run("const d = JSON.parse(document.querySelector('.data').textContent); const s = document.querySelector('#search'); s.value = d.n[arguments[0]].slice(0, 60); s.dispatchEvent(new Event('input')); document.querySelector('#results button')?.click()", at)
            check(browser.text("#detail h2"), f"name {at} is not found")
        check(browser.run("return window.broken === undefined"), "a name ran when it was shown")
        fits(browser, "hostile names")
        is_quiet(browser, "hostile names")
    with Browser(360, 740, touch=True) as browser:
        browser.open(path)
        fits(browser, "hostile names, narrow")


def many(path, _):
    """Names of C++ are found by their linkage names, and the files of the tile of small ones have functions."""
    with Browser() as browser:
        browser.open(path)
        browser.press("/", "_ZN3srv4mod76HandleEPKci", "Enter")
        check(browser.text("#detail h2") == "srv::mod7::Handle(char const*, int)", f"the linkage name finds {browser.text('#detail h2')}")
        check(browser.text("#status").startswith("srv::mod7::Handle"), "the status does not name it")
        browser.press("Escape", "mod8::handle", "Enter")
        check(browser.text("#detail h2") == "srv::mod8::Handle(char const*, int)", "a name without parameters is not found first")
        browser.run("document.querySelector('[data-rest]').dispatchEvent(new MouseEvent('click', { bubbles: true }))")
        check(browser.text("#detail h2") == "smaller files", "the tile of small files is not selected")
        check("61" in browser.text("#detail dl"), f"the tile of small files has {browser.text('#detail dl')}")
        is_quiet(browser, "many files")


def opens(path, _):
    """A report of any size opens, searches, and stays within the window."""
    with Browser() as browser:
        browser.open(path)
        check(browser.run("return document.body.classList.contains('live')"), "the script did not run")
        browser.press("/", "f1")
        check("function" in browser.text("#status"), "no answer to a search")
        fits(browser, path)
        is_quiet(browser, path)


def axe(path, script):
    """What axe-core finds, wide, narrow and dark, with a function selected. Prints the number of rules that passed."""
    with open(script, encoding="utf-8") as file:
        rules = file.read()
    for wide, dark in [(1440, False), (1440, True), (360, False), (360, True)]:
        # A window alone is no narrower than 500 px.
        with Browser(wide, 1000, dark=dark, touch=wide < 500) as browser:
            browser.open(path)
            check(browser.run("return innerWidth") == wide, f"the window is not {wide} px wide")
            browser.run("document.querySelector('[data-kind=map] [data-p]').dispatchEvent(new MouseEvent('click', { bubbles: true }))")
            browser.run(rules)
            found = browser.wait_for("const done = arguments[0]; axe.run().then((found) => done({ violations: found.violations.map((v) => [v.impact, v.id, v.nodes.length, v.nodes[0].html.slice(0, 120)]), passes: found.passes.length, version: axe.version }))")
            for impact, rule, count, first in found["violations"]:
                check(impact not in ("serious", "critical"), f"{wide} wide, {'dark' if dark else 'light'}: {impact} finding {rule}, {count} times: {first}")
            print(f"axe {found['version']} {wide} {'dark' if dark else 'light'} {found['passes']} {len(found['violations'])}")


def latency(path, _):
    """Prints the median time of 20 from an event to the next frame, in milliseconds; asserts nothing."""
    with Browser() as browser:
        browser.open(path)
        for what, selector, values in [("search", "#search", [text for text in "abcdefghijklmnopqrst"]), ("select", "[data-kind=map] [data-p]", [None] * 20)]:
            times = sorted(browser.wait_for(FRAME, selector, value) for value in values)
            print(f"{what} {(times[9] + times[10]) / 2:.0f}")


{"use": use, "hostile": hostile, "many": many, "opens": opens, "latency": latency, "axe": axe}[sys.argv[1]](sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
if failures:
    print("\n".join(failures))
    sys.exit(1)
