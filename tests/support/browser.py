"""A browser for tests, driven through the Chrome DevTools Protocol."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from typing import Any

from programs import BROWSER

KEYS = {"Tab": 9, " ": 32, "ArrowRight": 39, "ArrowDown": 40}  # and their codes


class Browser:
    """One page, which ends after `limit` seconds. Then every call fails."""

    def __init__(self, limit: float = 120) -> None:
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self.commands = os.pipe()
        answers, sender = os.pipe()
        # The protocol wants its two pipes as file descriptors 3 and 4.
        self.process = subprocess.Popen(
            [
                "bash",
                "-c",
                f"exec {BROWSER} --headless --no-sandbox --disable-gpu "
                f"--user-data-dir={self.profile.name} --remote-debugging-pipe 3<&{commands} 4>&{sender}",
            ],
            pass_fds=(commands, sender),
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(sender)
        self.answers, self.calls = os.fdopen(answers, "rb"), 0
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None
        self.timer = threading.Timer(limit, self.process.kill)
        self.timer.start()
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        self.answers.close()
        self.profile.cleanup()

    def receive(self) -> dict[str, Any]:
        message = bytearray()
        while not message.endswith(b"\0"):
            byte = self.answers.read(1)
            assert byte, "the browser has ended"
            message += byte
        return json.loads(message[:-1])

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        self.calls += 1
        call = {"id": self.calls, "method": method, "params": parameters}
        if self.session:
            call["sessionId"] = self.session
        os.write(self.commands, json.dumps(call).encode() + b"\0")
        while "id" not in (answer := self.receive()):
            self.events.append(answer)
        return answer["result"]

    def open(self, address: str) -> None:
        self.events = [event for event in self.events if event["method"] != "Page.loadEventFired"]
        self.call("Page.navigate", url=address)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def run(self, script: str) -> Any:  # noqa: ANN401
        """The value of this expression of JavaScript, or of its promise."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("rawKeyDown", *(["char"] if key == " " else []), "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=KEYS[key],
                **({"text": key} if kind == "char" else {}),
            )

    def of(self, method: str) -> list[dict[str, Any]]:
        """The parameters of all events so far with this method."""
        return [event["params"] for event in self.events if event["method"] == method]
