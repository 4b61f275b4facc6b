"""A headless Chromium, driven over its DevTools pipe with the standard library alone."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Beyond this something hangs.
_PATIENCE = 60.0


def find_browser() -> str | None:
    """The first browser on the path."""
    return next((found for found in map(shutil.which, NAMES) if found), None)


class Browser:
    """A browser process with a profile of its own, for as long as the ``with`` lasts."""

    def __init__(self, program: str, profile: Path) -> None:
        command = [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--disable-background-networking",
            "--no-first-run",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        to_browser, self._write = _pipe()
        self._read, from_browser = _pipe()
        log = os.open(profile.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        # It reads commands from 3 and answers on 4.
        places = ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2), (to_browser, 3), (from_browser, 4))
        self._pid = os.posix_spawn(
            program,
            command,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, own, its) for own, its in places],
            setpgroup=0,
        )
        for own in {own for own, _ in places}:
            os.close(own)
        self._number = 0
        self._pending = b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come before it are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        body = json.dumps(message).encode() + b"\0"
        while body:
            body = body[os.write(self._write, body) :]
        answer = self._until(lambda found: found.get("id") == self._number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def wait(self, method: str, session: str) -> None:
        """Wait for an event, unless it has come."""

        def is_it(found: dict[str, Any]) -> bool:
            return found.get("method") == method and found.get("sessionId") == session

        if not any(map(is_it, self.events)):
            self._until(is_it)

    def open(self, path: Path, *, width: int, dark: bool = False, height: int = 800) -> Page:
        """Open a page as wide as said, with nothing before it."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable", session)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", session, **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", session, features=[scheme])
        self.events.clear()
        self.call("Page.navigate", session, url=path.as_uri())
        self.wait("Page.loadEventFired", session)
        return Page(self, session, target)

    def _until(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        limit = time.monotonic() + _PATIENCE
        while True:
            while b"\0" in self._pending:
                body, self._pending = self._pending.split(b"\0", 1)
                found = json.loads(body)
                if "method" in found:
                    self.events.append(found)
                if is_it(found):
                    return found
            ready, _, _ = select.select([self._read], [], [], limit - time.monotonic())
            more = os.read(self._read, 1 << 20) if ready else b""
            if not more:
                raise RuntimeError("the browser is gone" if ready else "the browser does not answer")
            self._pending += more


class Page:
    """A page that is loaded."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target

    def run(self, script: str) -> Any:
        """The value of an expression of JavaScript, by the debugger: the page's own policy does not allow any."""
        answer = self._browser.call("Runtime.evaluate", self._session, expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def picture(self) -> bytes:
        """The whole page as PNG."""
        facts = {"format": "png", "captureBeyondViewport": True}
        size = self._browser.call("Page.getLayoutMetrics", self._session)["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        return base64.b64decode(self._browser.call("Page.captureScreenshot", self._session, clip=clip, **facts)["data"])

    def print(self) -> bytes:
        """The page as PDF."""
        return base64.b64decode(self._browser.call("Page.printToPDF", self._session, printBackground=False)["data"])

    def media(self, name: str) -> None:
        """Show the page as ``"print"`` or ``"screen"`` would."""
        self._browser.call("Emulation.setEmulatedMedia", self._session, media=name)

    def heard(self, *methods: str) -> list[dict[str, Any]]:
        """Events of this page since it was opened."""
        self.run("1")
        return [
            event["params"]
            for event in self._browser.events
            if event["method"] in methods and event.get("sessionId") == self._session
        ]

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are out of the way of 0 to 4."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
