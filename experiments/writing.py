"""Records and pages of experiments: JSON for programs, Markdown and plots for readers."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, get_args

from experiments.base import Experiment, Finding, Report, Size, Table
from experiments.provenance import provenance
from experiments.running import TaskResult
from experiments.sources import report_digest
from experiments.verdicts import Verdict
from marginrank.errors import DataError
from marginrank.runtime.files import atomic_path
from marginrank.runtime.text import plain
from marginrank.version import __version__

#: The results of the full runs, beside the code that computed them.
RESULTS: Final = Path(__file__).parent / "results"
_PACKAGES: Final = ("numpy", "scipy", "numba", "scikit-learn")
#: What a record says about a run, in the order of the pages.
_FACTS: Final = ("date", "commit", "versions", "machine", "size", "seconds of computing")
#: What a record was computed from.
_PROVENANCE: Final = ("plan", "code", "data")


def setting() -> dict[str, str]:
    """Return the date, the versions and the machine of this run."""
    versions = ", ".join([f"marginrank {__version__}", *(f"{name} {version(name)}" for name in _PACKAGES)])
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30 if hasattr(os, "sysconf") else math.nan
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "versions": f"{versions}, Python {platform.python_version()}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GB, {platform.system()}",
    }


def write(
    experiment: Experiment, results: Mapping[str, TaskResult], data: Path, out: Path, size: Size = "full"
) -> list[Path]:
    """Write ``NAME.md``, ``NAME.json`` and ``NAME-PLOT.svg`` into a folder, and return their paths."""
    seconds = sum(one.seconds for one in results.values())
    # Tasks computed at different commits have the same digest: their code was the same.
    commits = ", ".join(dict.fromkeys(one.commit for one in results.values()))
    facts = {**setting(), "commit": commits, "size": size, "seconds of computing": f"{seconds:.0f}"}
    ordered = {fact: facts[fact] for fact in _FACTS}
    by_name = {name: one.result for name, one in results.items()}
    return _write(experiment, by_name, ordered, provenance(experiment, data, size), out)


def write_from_record(experiment: Experiment, out: Path) -> list[Path]:
    """Write the same files from the results in ``NAME.json``, for when only the report has changed.

    Raises:
        DataError: The folder has no results of this experiment.
    """
    record = out / f"{experiment.name}.json"
    if not record.exists():
        raise DataError(f"no results of {experiment.name}; run it first", path=record)
    document = json.loads(record.read_text(encoding="utf-8"))
    facts, origin = ({key: document[key] for key in keys if key in document} for keys in (_FACTS, _PROVENANCE))
    return _write(experiment, document["results"], facts, origin, out)


def _write(
    experiment: Experiment, results: Mapping[str, Any], facts: Mapping[str, str], origin: Mapping[str, Any], out: Path
) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    report = experiment.report(results)
    command = f"python -m experiments run {experiment.name}{' --miniature' if facts['size'] == 'miniature' else ''}"
    facts = {"command": command, **facts}
    plots = [out / f"{experiment.name}-{picture.name}.svg" for picture in report.pictures]
    for path, picture in zip(plots, report.pictures, strict=True):
        _draw(picture.figure, path)
    document = {
        "experiment": experiment.name,
        "source": experiment.source,
        **facts,
        "tables": [dataclasses.asdict(table) for table in report.tables],
        "findings": [dataclasses.asdict(finding) for finding in report.findings],
        "results": results,
        "report": report_digest(experiment.report),
        **origin,
    }
    record, page = out / f"{experiment.name}.json", out / f"{experiment.name}.md"
    _text(record, _json(plain(document)))
    _text(page, _page(experiment, report, facts))
    return [page, record, *plots]


def write_findings(experiments: Sequence[Experiment], out: Path) -> Path:
    """Write ``findings.md``: claims and verdicts of all experiments whose results lie in a folder."""
    by_experiment = {one: _findings_of(out / f"{one.name}.json") for one in experiments}
    sections = []
    for experiment, findings in by_experiment.items():
        if findings:
            sections += [f"## {experiment.title}", f"[{experiment.source}]({experiment.name}.md)", _findings(findings)]
    everything = [one for findings in by_experiment.values() for one in findings]
    hold, not_, open_ = _counts(everything).values()
    counts = f"{hold} hold, {not_} do not, {open_} are undecided"
    introduction = f"{len(everything)} claims of the papers were tested: {counts}. [How verdicts are found](index.md)."
    path = out / "findings.md"
    _text(path, "\n\n".join(["# Which claims hold", introduction, *sections]) + "\n")
    return path


def write_costs(experiments: Sequence[Experiment], out: Path) -> Path:
    """Write ``costs.md``: the computing time of all experiments whose records lie in a folder."""
    rows = []
    for experiment in experiments:
        if (seconds := seconds_of(experiment, out)) is not None:
            record = _record_of(out / f"{experiment.name}.json")
            link = f"[{experiment.name}]({experiment.name}.md)"
            rows.append((link, len(record["results"]), round(seconds), record["date"], record.get("commit", "unknown")))
    total = sum(row[2] for row in rows)
    introduction = (
        f"All {len(rows)} experiments together took {total / 60:.0f} minutes of computing: the sum over their tasks, "
        "each of which uses one thread. `make reproduce` runs as many tasks at a time as there are cores."
    )
    table = Table("Computing time", ("experiment", "tasks", "seconds", "date", "commit"), rows)
    path = out / "costs.md"
    _text(path, "\n\n".join(["# What the experiments cost", introduction, table.markdown()]) + "\n")
    return path


def seconds_of(experiment: Experiment, out: Path) -> float | None:
    """Return the seconds of computing that a record states, or None if there is no full record."""
    record = _record_of(out / f"{experiment.name}.json")
    return float(record["seconds of computing"]) if record and record["size"] == "full" else None


def _record_of(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _findings_of(record: Path) -> list[Finding]:
    written = _record_of(record)
    # The numbers of a miniature mean nothing.
    return [Finding(**one) for one in written["findings"]] if written.get("size") == "full" else []


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    """How often each verdict comes, in the order of the verdicts.

    >>> _counts([Finding("", "", "undecided", ""), Finding("", "", "holds", "")])
    {'holds': 1, 'does not hold': 0, 'undecided': 1}
    """
    return {verdict: sum(one.verdict == verdict for one in findings) for verdict in get_args(Verdict)}


def _page(experiment: Experiment, report: Report, facts: Mapping[str, str]) -> str:
    blocks = [f"# {experiment.title}", f"Reproduces {experiment.source}.", experiment.about.strip()]
    if facts["size"] == "miniature":
        blocks.append("**A miniature, run on a few queries: its numbers mean nothing.**")
    if report.findings:
        blocks += ["## Findings", _findings(report.findings)]
    if report.tables:
        blocks += ["## Tables", *(table.markdown() for table in report.tables)]
    if report.pictures:
        blocks.append("## Plots")
        for picture in report.pictures:
            blocks.append(f"![{picture.caption}]({experiment.name}-{picture.name}.svg)\n\n{picture.caption}")
    if report.notes:
        blocks += ["## Differences from the paper", "\n".join(f"- {note}" for note in report.notes)]
    blocks += ["## How to reproduce this", f"```console\n$ {facts['command']}\n```"]
    blocks.append("\n".join(f"- {name}: {text}" for name, text in facts.items() if name not in ("command", "size")))
    return "\n\n".join(blocks) + "\n"


def _findings(findings: Sequence[Finding]) -> str:
    lines = ["| claim | source | verdict | evidence |", "| :--- | :--- | :--- | :--- |"]
    for one in findings:
        cells = (one.claim, one.source, f"**{one.verdict}**", one.evidence)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines)


def _draw(figure: Any, path: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415

    # The same numbers give the same file: no date, and no random names of shapes. Text stays text, which is shorter.
    with mpl.rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none"}), atomic_path(path) as unfinished:
        figure.savefig(unfinished, format="svg", metadata={"Date": None})


def _json(document: Mapping[str, Any]) -> str:
    """Return JSON with a line for each entry and for each result: short, and still to be compared line by line."""
    lines = []
    for name, entry in document.items():
        if name == "results":
            inner = ",\n".join(f" {json.dumps(key)}: {_compact(value)}" for key, value in entry.items())
            lines.append(f"{json.dumps(name)}: {{\n{inner}\n}}")
        else:
            lines.append(f"{json.dumps(name)}: {_compact(entry)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _text(path: Path, text: str) -> None:
    with atomic_path(path) as unfinished:
        unfinished.write_bytes(text.encode())
