# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pages of an intake in a browser: from the list to a package and its profile. Names of strangers stay text.

    pages.py ADDRESS [SCREENSHOTS]
"""

import pathlib
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "crates/sediment-cli/tests/browsers/browser"))
from webdriver import Browser

address = sys.argv[1]
for width, dark in ((1440, False), (400, True)):
    with Browser(width=width, dark=dark) as page:
        page.call("POST", "/url", {"url": f"http://{address}/"})
        assert page.text("h1") == "Packages", page.text("h1")
        listed = page.run("return [...document.querySelectorAll('td a')].map((link) => link.innerText)")
        assert "prog" in listed and "<b>odd" in listed, listed
        if len(sys.argv) > 2:
            page.screenshot(f"{sys.argv[2]}/fleet-{width}.png")
        page.run("[...document.querySelectorAll('td a')].find((link) => link.innerText == 'prog').click()")
        until = time.monotonic() + 30
        while page.text("h1") != "prog" and time.monotonic() < until:
            time.sleep(0.1)
        assert page.text("h1") == "prog", page.text("h1")
        headings = page.run("return [...document.querySelectorAll('h2')].map((heading) => heading.innerText)")
        assert headings == ["Versions", "Drift", "Hottest functions"], headings
        versions, hottest = (page.run("return document.querySelectorAll('table')[arguments[0]].rows.length", table) for table in (0, 1))
        assert versions >= 2 and hottest >= 10, (versions, hottest)
        assert "agreement" in page.run("return document.body.innerText")
        # No element is wider than the window.
        assert page.run("return document.documentElement.scrollWidth <= window.innerWidth"), width
        link = page.run("return document.querySelector('a[download]').href")
        with urllib.request.urlopen(link) as answer:
            assert answer.read().startswith(b"digraph"), link
        if len(sys.argv) > 2:
            page.screenshot(f"{sys.argv[2]}/fleet-package-{width}.png")
        page.call("POST", "/url", {"url": f"http://{address}/packages/%3Cb%3Eodd"})
        assert page.text("h1") == "<b>odd", page.text("h1")
        assert "<script>window.broken=1</script>" in page.run("return document.body.innerText")
        assert page.run("return window.broken ?? null") is None
        complaints = [message for message in page.complaints() if "favicon.ico" not in message]
        assert not complaints, complaints
