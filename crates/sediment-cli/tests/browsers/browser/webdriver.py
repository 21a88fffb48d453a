# SPDX-License-Identifier: MIT OR Apache-2.0
"""A client of WebDriver (https://www.w3.org/TR/webdriver2/) for the drivers of Chromium and Firefox, by Python's standard library alone."""

import base64
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --hide-scrollbars --force-device-scale-factor=1""".split()
# Seconds that a script may take which is waited for: rules of accessibility on a large page take minutes.
SCRIPT = 600
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Tab": "\ue004"}


class Session:
    """A session of a browser, which ends with the `with` block."""

    def start(self, command, port_of, capabilities):
        self.driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = next(found for found in map(port_of, self.driver.stdout) if found)
        self.base = f"http://127.0.0.1:{port}"
        started = self.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.base += "/session/" + started["sessionId"]
        self.call("POST", "/timeouts", {"script": SCRIPT * 1000})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(10)

    def call(self, method, path, body=None, seconds=120):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"].splitlines()[0]) from None

    def open(self, path):
        self.call("POST", "/url", {"url": pathlib.Path(path).resolve().as_uri()})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, script, *arguments):
        return self.call("POST", "/execute/async", {"script": script, "args": list(arguments)}, SCRIPT + 10)

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click", {})

    def tap(self, selector):
        actions = [{"type": "pointerMove", "origin": {ELEMENT: self.find(selector)}, "x": 0, "y": 0}, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        finger = {"type": "pointer", "id": "finger", "parameters": {"pointerType": "touch"}, "actions": actions}
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        self.call("POST", "/actions", {"actions": [finger]})

    def press(self, *keys):
        """Types into what has the focus: names of keys, or text."""
        typed = [key for part in keys for key in ([KEYS[part]] if part in KEYS else part)]
        actions = [{"type": kind, "value": key} for key in typed for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? null", selector)


class Chromium(Session):
    """A session of Chromium."""

    def __init__(self, width=1440, height=1000, dark=False, touch=False, script=True):
        preferences = {} if script else {"profile.managed_default_content_settings.javascript": 2}
        options = {"args": FLAGS + [f"--window-size={width},{height}"], "prefs": preferences}
        if touch:
            options["mobileEmulation"] = {"deviceMetrics": {"width": width, "height": height, "pixelRatio": 2, "touch": True}}
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.start(["chromedriver", "--port=0"], lambda line: line.split("port ")[1].strip(" .\n") if "successfully on port" in line else None, capabilities)
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def command(self, name, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def complaints(self):
        """What the console has."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]

    def accessibility(self):
        """Roles and names of the tree that assistive technology sees."""
        self.command("Accessibility.enable")
        nodes = self.command("Accessibility.getFullAXTree")["nodes"]
        shown = [node for node in nodes if not node.get("ignored")]
        return [(node.get("role", {}).get("value"), node.get("name", {}).get("value", "")) for node in shown]

    def screenshot(self, path):
        """The whole page as PNG."""
        size = self.command("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
        shot = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))


class Firefox(Session):
    """A session of Firefox. Its windows cannot be narrow: a page of a narrow window is one within a frame of that width."""

    def __init__(self, width=1440, height=1000, dark=False, touch=False, script=True):
        self.frame = (width, height) if width < 600 else None
        preferences = {"layout.css.prefers-color-scheme.content-override": 0 if dark else 1, "dom.w3c_touch_events.enabled": int(touch), "javascript.enabled": script}
        options = {"binary": firefox(), "args": ["-headless", f"--width={max(width, 600)}", f"--height={height}"], "prefs": preferences}
        # It refuses requests to a port that it chose by itself.
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.start(["geckodriver", "--allow-system-access", f"--port={port}"], lambda line: str(port) if "Listening on" in line else None, {"browserName": "firefox", "moz:firefoxOptions": options})

    def open(self, path):
        self.ignored = len(self.messages())
        if self.frame is None:
            return super().open(path)
        with tempfile.NamedTemporaryFile("w", suffix=".html", dir=pathlib.Path(path).resolve().parent) as page:
            width, height = self.frame
            page.write(f'<!doctype html><title>A frame</title><body style="margin:0"><iframe id="frame" title="page" src="{pathlib.Path(path).name}" style="border:0;width:{width}px;height:{height}px"></iframe>')
            page.flush()
            super().open(page.name)
            self.call("POST", "/frame", {"id": {ELEMENT: self.find("#frame")}})

    def messages(self):
        self.call("POST", "/moz/context", {"context": "chrome"})
        found = self.run("return Services.console.getMessageArray().filter((m) => m instanceof Ci.nsIScriptError && !(m.flags & Ci.nsIScriptError.infoFlag)).map((m) => [m.errorMessage, m.sourceName])")
        self.call("POST", "/moz/context", {"context": "content"})
        return found

    def complaints(self):
        """What the console has of pages, errors and warnings."""
        return [message for message, source in self.messages()[self.ignored:] if source.startswith("file:")]

    def accessibility(self):
        """Roles and names that assistive technology sees, of the elements that have some. Text is the name of those without."""
        shown = self.call("POST", "/elements", {"using": "css selector", "value": "main, aside, header, h1, h2, h3, input, button, svg, table, td, [role]"})
        found = []
        for element in [element[ELEMENT] for element in shown[:300]]:
            role, name = (self.call("GET", f"/element/{element}/computed{part}") for part in ("role", "label"))
            found.append((role, name or self.call("GET", f"/element/{element}/text")))
        return found

    def screenshot(self, path):
        """The whole page as PNG."""
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", "/moz/screenshot/full")))


def firefox():
    """Path of Firefox, which Debian calls firefox-esr."""
    return shutil.which("firefox") or shutil.which("firefox-esr")


Browser = Firefox if os.environ.get("SEDIMENT_BROWSER") == "firefox" else Chromium
