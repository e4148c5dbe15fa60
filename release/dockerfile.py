"""The steps of a Dockerfile, taken in a folder without Docker: enough of the format for the Dockerfile of this project.

Absolute paths become paths below the folder; the stages share it, since they build on each other. What only a
container has, users of the system, is left out and named.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from release.steps import CheckFailed, check_output

#: Instructions that describe the image, and do nothing when it is built.
_DESCRIPTIONS: Final = ("USER", "EXPOSE", "STOPSIGNAL")
_ABSOLUTE: Final = re.compile(r"(?<![\w./:])/(?=[a-z])")


@dataclass(frozen=True)
class Instruction:
    """An instruction, such as ``RUN``, and the rest of its line; lines that go on are one."""

    name: str
    rest: str

    @property
    def words(self) -> list[str]:
        """The words of a JSON list, or of a plain line."""
        return json.loads(self.rest) if self.rest.startswith("[") else self.rest.split()


def parse(text: str) -> list[Instruction]:
    r"""Return the instructions of a Dockerfile.

    >>> parse("# why\nFROM a AS b\nENV X=1 \\\n    Y=2\n")
    [Instruction(name='FROM', rest='a AS b'), Instruction(name='ENV', rest='X=1 Y=2')]
    """
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    words = [" ".join(line.split()).partition(" ") for line in lines if line.strip()]
    return [Instruction(name, rest) for name, _, rest in words]


@dataclass
class Container:
    """A folder in which the steps are taken.

    Args:
        source: The folder of the Dockerfile.
        root: The folder that stands for ``/``.
        python: The interpreter that stands for the one of the image.
        variables: Variables besides those of the Dockerfile.
    """

    source: Path
    root: Path
    python: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with an empty folder, in which ``python`` is the given interpreter."""
        tools = self.root / "tools"
        tools.mkdir(parents=True)
        for name in ("python", "python3"):
            (tools / name).symlink_to(self.python)
        self.environment = {"PATH": f"{tools}{os.pathsep}{os.defpath}", "HOME": str(self.root), **self.variables}
        self.work = self.root
        self.left_out: list[str] = []
        self.entrypoint: list[str] = []
        self.command: list[str] = []
        self.health: list[str] = []

    def inside(self, text: str) -> str:
        """Return text with absolute paths below the folder."""
        return _ABSOLUTE.sub(f"{self.root}/", text)

    def take(self, instruction: Instruction) -> None:
        """Take a step."""
        if instruction.name not in _DESCRIPTIONS:
            getattr(self, f"_{instruction.name.lower()}")(instruction)

    def _from(self, _: Instruction) -> None:
        self.work = self.root
        self.environment["PATH"] = f"{self.root / 'tools'}{os.pathsep}{os.defpath}"

    def _workdir(self, instruction: Instruction) -> None:
        self.work = Path(self.inside(instruction.rest))
        self.work.mkdir(parents=True, exist_ok=True)

    def _env(self, instruction: Instruction) -> None:
        for name, value in (word.split("=", 1) for word in instruction.words):
            # Variables hold paths below the folder already.
            self.environment[name] = re.sub(r"\$(\w+)", lambda match: self.environment[match[1]], self.inside(value))

    def _volume(self, instruction: Instruction) -> None:
        Path(self.inside(instruction.rest)).mkdir(parents=True, exist_ok=True)

    def _copy(self, instruction: Instruction) -> None:
        *sources, target = (word for word in instruction.words if not word.startswith("--"))
        for source in sources:
            if "--from=" in instruction.rest:
                self._check_built(source)
            else:
                self._copy_in(source, self.work / target)

    def _check_built(self, source: str) -> None:
        if not Path(self.inside(source)).exists():
            raise CheckFailed(f"COPY: {source} was not built by the stage before")

    def _copy_in(self, source: str, target: Path) -> None:
        place = self.source / source
        patterns = (self.source / ".dockerignore").read_text(encoding="utf-8").split()
        if not place.exists() or any(fnmatch(source, pattern) for pattern in patterns):
            raise CheckFailed(f"COPY: {source} is missing, or in .dockerignore")
        if place.is_dir():
            shutil.copytree(place, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(place, target)

    def _run(self, instruction: Instruction) -> None:
        steps = [step.strip() for step in instruction.rest.split("&&")]
        self.left_out += [step for step in steps if step.startswith("useradd ")]
        command = " && ".join(self.inside(step) for step in steps if not step.startswith("useradd "))
        if command:
            check_output(["sh", "-c", command], cwd=self.work, env=self.environment)

    def _healthcheck(self, instruction: Instruction) -> None:
        self.health = Instruction("CMD", instruction.rest.partition("CMD ")[2]).words

    def _entrypoint(self, instruction: Instruction) -> None:
        self.entrypoint = instruction.words

    def _cmd(self, instruction: Instruction) -> None:
        self.command = instruction.words

    @contextmanager
    def running(self, port: int) -> Iterator[None]:
        """Run what the container runs, on another port, from when its health check succeeds."""
        old = self.command[self.command.index("--port") + 1]
        other = {old: str(port), "0.0.0.0": "127.0.0.1"}
        words = [self.inside(other.get(word, word)) for word in (*self.entrypoint, *self.command)]
        health = [word.replace(f":{old}/", f":{port}/") for word in self.health]
        with (self.root / "service.log").open("w") as log:
            service = subprocess.Popen(self._shell(words), env=self.environment, stdout=log, stderr=log)
            try:
                self._wait(service, health)
                yield
            finally:
                service.terminate()
                code = service.wait(timeout=60)
        if code:
            raise CheckFailed(f"the service ended with {code} after SIGTERM")

    def _wait(self, service: subprocess.Popen[bytes], health: list[str]) -> None:
        end = time.monotonic() + 300
        while subprocess.run(self._shell(health), env=self.environment, capture_output=True, check=False).returncode:
            if service.poll() is not None or time.monotonic() > end:
                log = (self.root / "service.log").read_text(encoding="utf-8")
                raise CheckFailed(f"the service did not become healthy: {log[-500:]}")
            time.sleep(1)

    def _shell(self, words: list[str]) -> list[str]:
        """Return a command that looks a program up in the PATH of the container."""
        return ["/bin/sh", "-c", 'exec "$@"', "sh", *words]


def build_and_serve(
    source: Path, root: Path, python: Path, variables: Mapping[str, str], model: Path, port: int
) -> str:
    """Take all steps of the Dockerfile in a folder, and serve a model as the container does until it is healthy."""
    container = Container(source, root, python, variables)
    instructions = parse((source / "Dockerfile").read_text(encoding="utf-8"))
    for instruction in instructions:
        container.take(instruction)
    shutil.copy(model, container.inside(container.command[0]))
    with container.running(port):
        pass
    left_out = f", without {'; '.join(container.left_out)}" if container.left_out else ""
    return f"{len(instructions)} instructions{left_out}; healthy on port {port}, ended by SIGTERM"
