"""A headless Chromium, spoken to over a pipe in the DevTools protocol: https://chromedevtools.github.io/devtools-protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE = 60.0


def find_browser():
    """Where a browser is, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser that is open as long as the ``with`` block lasts."""

    def __init__(self, program, profile):
        self._options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        self._options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        self._options += [f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        self._program, self._last, self._rest, self.events = program, 0, b"", []

    def __enter__(self):
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # Chromium listens on descriptor 3 and answers on descriptor 4.
        line = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", line, "bash", self._program, *self._options],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        return self

    def __exit__(self, *_):
        self.send("Browser.close")
        self._process.wait(timeout=_PATIENCE)
        os.close(self._write)
        os.close(self._read)

    def send(self, method, session=None, **params):
        """Call a method and wait for what it returns."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        message |= {} if session is None else {"sessionId": session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, event, session):
        """Wait until something has happened."""
        while not any(one.get("method") == event and one.get("sessionId") == session for one in self.events):
            self.events.append(self._next())

    def _next(self):
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser has gone"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)


class Page:
    """A page in a window of some width, light or dark: a file, or an address."""

    def __init__(self, browser, path, *, width, dark):
        target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self._browser, self.width = browser, width
        self._session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        phone = width < 600
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=phone)
        self.show(dark)
        self.send("Page.navigate", url=path if isinstance(path, str) else path.as_uri())
        browser.wait_for("Page.loadEventFired", self._session)

    def show(self, dark):
        """Switch to the dark or the light colors."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def send(self, method, **params):
        return self._browser.send(method, self._session, **params)

    def evaluate(self, expression):
        """The value of an expression, or of what it promises."""
        done = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def click(self, element):
        """Click in the middle of what an expression gives."""
        place = self.evaluate(
            f"(() => {{ const one = {element}; one.scrollIntoView({{block: 'center'}});"
            " const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def press_enter(self):
        self.press("Enter", code="Enter", text="\r", windowsVirtualKeyCode=13)

    def press(self, key, **more):
        """Press a key and let it go."""
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, **{"text": key} | more)

    def type(self, text):
        self.send("Input.insertText", text=text)

    def wait_until(self, condition, seconds=30):
        """Wait until an expression is true."""
        assert self.evaluate(
            f"(async () => {{ for (let n = 0; n < {seconds * 50}; n++) {{ if ({condition}) return true;"
            " await new Promise((resume) => setTimeout(resume, 20)); } return false; })()"
        ), condition

    def picture(self):
        """Return the window as PNG."""
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])

    def _events(self, name):
        return [
            one["params"]
            for one in self._browser.events
            if one.get("method") == name and one.get("sessionId") == self._session
        ]

    @property
    def problems(self):
        """Errors and warnings in the console, whoever wrote them there."""
        said = [one["exceptionDetails"] for one in self._events("Runtime.exceptionThrown")]
        said += [
            one for one in self._events("Runtime.consoleAPICalled") if one["type"] in ("error", "warning", "assert")
        ]
        return said + [one["entry"] for one in self._events("Log.entryAdded")]

    @property
    def requests(self):
        """What was asked of the file system or the network, the page itself included."""
        return [one["request"]["url"] for one in self._events("Network.requestWillBeSent")]
