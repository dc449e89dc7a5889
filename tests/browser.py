"""A headless Chromium over its debugging pipe: no port to race for, no driver to install.

Messages are JSON, each ended by a zero byte, on file descriptors 3 (in) and 4 (out) of the
browser: https://chromedevtools.github.io/devtools-protocol/.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
TIMEOUT_S = 120.0  # of one answer; a busy machine is no reason to fail


class Page:
    """One tab. `problems` are console errors, uncaught exceptions and failed requests."""

    def __init__(self, browser: "_Browser", session: str) -> None:
        self._browser, self._session = browser, session
        self.problems: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, parameters, self)

    def size(self, width: int, height: int, *, mobile: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=mobile)  # fmt: skip

    def open(self, url: str) -> None:
        """Load a page and wait until it and its pictures are there."""
        self.call("Page.navigate", url=url)
        self.wait(f"location.href.startsWith({url.split('#')[0]!r}) && "
                  "document.readyState === 'complete'")  # fmt: skip

    def wait(self, condition: str) -> None:
        """Until a JavaScript expression is true."""
        end = time.monotonic() + TIMEOUT_S
        while not self.value(condition):
            assert time.monotonic() < end, f"never true: {condition}; {self.problems}"
            time.sleep(0.05)

    def value(self, expression: str) -> Any:
        """A JavaScript expression's JSON value."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def picture(self, path: Path | None = None, *, whole: bool = False) -> bytes:
        """PNG bytes of the view, or of the whole page."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        data = base64.b64decode(found["data"])
        if path is not None:
            path.write_bytes(data)
        return data

    def heard(self, method: str, event: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.problems.append(str(details.get("exception", details).get("description", details)))
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "assert"):
            self.problems.append(" ".join(str(a.get("value", a)) for a in event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            self.problems.append(f"{event['entry']['text']} {event['entry'].get('url', '')}")
        elif method == "Network.loadingFailed" and not event.get("canceled"):
            self.problems.append(f"not loaded: {event['errorText']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])


class _Browser:
    def __init__(self, profile: str) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def wire() -> None:  # in the child: its ends of the pipes become 3 and 4
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)

        command = [
            str(PROGRAM), "--headless=new", "--remote-debugging-pipe", "--no-sandbox",
            "--disable-gpu-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--mute-audio",
            f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, preexec_fn=wire, close_fds=False, pass_fds=(), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._count = b"", 0
        self._pages: dict[str, Page] = {}

    def page(self) -> Page:
        target = self.call("Target.createTarget", {"url": "about:blank"}, None)["targetId"]
        attached = self.call("Target.attachToTarget", {"targetId": target, "flatten": True}, None)
        return Page(self, attached["sessionId"])

    def call(self, method: str, parameters: dict[str, Any], page: Page | None) -> dict[str, Any]:
        self._count += 1
        number = self._count
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if page is not None:
            session = page._session
            self._pages[session] = page
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._next(end, method)
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            listener = self._pages.get(answer.get("sessionId", ""))
            if listener is not None and "method" in answer:
                listener.heard(answer["method"], answer["params"])

    def _next(self, end: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            assert left > 0, f"{PROGRAM}: no answer to {what} within {TIMEOUT_S:.0f} s"
            if select.select([self._read], [], [], left)[0]:
                data = os.read(self._read, 1 << 20)
                assert data, f"{PROGRAM} ended; exit code {self._process.poll()}"
                self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def close(self) -> None:
        os.close(self._write)  # the browser ends with its pipe
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)


@contextmanager
def chromium() -> Iterator[Page]:
    """A page of a fresh browser; the test is skipped, with the reason, where there is none."""
    if PROGRAM is None:
        pytest.skip("no chromium on this machine; apt-get install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = _Browser(profile)
        try:
            yield browser.page()
        finally:
            browser.close()
