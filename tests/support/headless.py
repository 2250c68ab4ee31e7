"""A real headless Chromium, driven over a pipe: nothing but the standard library is needed, and no port is opened."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str | None:
    """Return the path of a Chromium on this machine, or ``None``."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


class BrowserError(Exception):
    """A command of the browser failed."""


class Browser:
    """
    One browser with one page in it.

    Attributes:
        messages: what the page's console and the browser's log said, errors of the content policy included.
        requests: addresses that the page asked for.
    """

    def __init__(self, program: str) -> None:
        self.messages: list[str] = []
        self.requests: list[str] = []
        self._number = 0
        self._buffer = b""
        self._folder = tempfile.TemporaryDirectory(prefix="lc-browser-", ignore_cleanup_errors=True)
        (to_read, self._write), (self._read, to_write) = os.pipe(), os.pipe()
        # The browser reads commands from its file descriptor 3 and answers on 4.
        script = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        arguments = (
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-first-run",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--hide-scrollbars",
            f"--user-data-dir={self._folder.name}",
        )
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", script, program, *arguments],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        target = self._call("Target.createTarget", {"url": "about:blank"}, None)["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True}, None)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._folder.cleanup()

    def call(self, method: str, **parameters):
        """Send one command of the DevTools protocol to the page and return its result."""
        return self._call(method, parameters, self._session)

    def _call(self, method, parameters, session):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(method, answer["error"])
                return answer["result"]

    def _receive(self):
        while b"\0" not in self._buffer:
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise BrowserError(*self.messages)
            self._buffer += chunk
        text, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(text)
        self._note(message)
        return message

    def _note(self, message) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.messages.append(" ".join(str(item.get("value")) for item in parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.messages.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def show(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Set the window and what the reader prefers."""
        mobile = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", features=features)

    def open(self, address: str) -> float:
        """Load a page, and return the seconds until it was loaded and laid out."""
        self.messages.clear()
        self.requests.clear()
        started = time.perf_counter()
        self.call("Page.navigate", url=address)
        while self.evaluate("document.readyState") != "complete" or self.evaluate("location.href") == "about:blank":
            time.sleep(0.01)
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.perf_counter() - started

    def evaluate(self, expression: str):
        """Evaluate JavaScript in the page and return its value; the page's content policy does not hold for this."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def key(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        code = {"Enter": 13, "Tab": 9, "ArrowRight": 39, "ArrowLeft": 37}.get(key, ord(key[0].upper()))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the mouse's button at one place and release it at another."""
        for kind, (x, y), buttons in (
            ("mouseMoved", start, 0),
            ("mousePressed", start, 1),
            ("mouseMoved", end, 1),
            ("mouseReleased", end, 0),
        ):
            button = "left" if kind != "mouseMoved" or buttons else "none"
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons, clickCount=1)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Take a picture of the window, or of the whole page."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **(self._whole() if whole else {}))
        path.write_bytes(base64.b64decode(answer["data"]))

    def _whole(self):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}}


def main() -> None:
    """Take pictures of a page: ``headless.py PAGE FOLDER``."""
    page, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    program = find_browser()
    if program is None:
        sys.exit("no Chromium was found")
    browser = Browser(program)
    try:
        for width in (1280, 390):
            for dark in (False, True):
                name = f"{page.stem}-{width}-{'dark' if dark else 'light'}"
                browser.show(width=width, dark=dark)
                browser.open(page.as_uri())
                browser.picture(folder / f"{name}.png", whole=True)
                browser.evaluate("document.querySelectorAll('details.lecture').forEach(item => item.open = true)")
                browser.evaluate("new Promise(done => setTimeout(done, 300))")
                browser.picture(folder / f"{name}-open.png", whole=True)
        sys.stdout.write("".join(f"{message}\n" for message in browser.messages))
    finally:
        browser.close()


if __name__ == "__main__":
    main()
