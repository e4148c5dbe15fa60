"""``marginrank serve`` in another process."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit


class Service:
    """A service that is running once this is made."""

    def __init__(self, path: Path, *words: str) -> None:
        command = [sys.executable, "-m", "marginrank", "serve", str(path), "--port", "0", "--json", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        printed = "".join(iter(self.process.stdout.readline, "}\n")) + "}"
        self.address = json.loads(printed)["address"]
        self.port = urlsplit(self.address).port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def limit_descriptors(self, count: int) -> None:
        """Let it have so many files and connections open, on Linux."""
        import resource

        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (count, count))

    def stop(self) -> tuple[int, str]:
        """End it as a container is ended; return the exit code, and what it printed on standard error."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors
