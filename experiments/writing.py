"""Records and pages of experiments: JSON for programs, Markdown and plots for readers."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, get_args

from experiments.base import Experiment, Finding, Picture, Report, Size, Table
from experiments.provenance import provenance
from experiments.running import TaskResult
from experiments.sources import report_digest
from experiments.verdicts import Verdict, unanimous
from marginrank.errors import DataError
from marginrank.runtime.files import atomic_path
from marginrank.runtime.text import plain
from marginrank.version import __version__

#: The results of the full runs, beside the code that computed them.
RESULTS: Final = Path(__file__).parent / "results"
_PACKAGES: Final = ("numpy", "scipy", "numba", "scikit-learn")
#: What a record says about a run, in the order of the pages.
_FACTS: Final = (
    "date",
    "commit",
    "versions",
    "machine",
    "size",
    "seconds of computing",
    "seconds elapsed",
    "processes",
)
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
    facts = {
        **setting(),
        "commit": commits,
        "size": size,
        "seconds of computing": f"{seconds:.0f}",
        "seconds elapsed": f"{sum(one.elapsed for one in results.values()):.0f}",
        "processes": ", ".join(map(str, sorted({one.processes for one in results.values()}))),
    }
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
    plots = [out / f"{experiment.name}-{picture.name}.svg" for picture in report.all_pictures]
    for path, picture in zip(plots, report.all_pictures, strict=True):
        _draw(picture.figure, path)
    document = {
        "experiment": experiment.name,
        "source": experiment.source,
        **facts,
        "tables": [dataclasses.asdict(table) for table in report.all_tables],
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
    by_experiment = {one: _findings_of(out / f"{one.name}.json") for one in experiments if one.of_paper}
    sections = []
    for experiment, findings in by_experiment.items():
        if findings:
            sections += [f"## {experiment.title}", f"[{experiment.source}]({experiment.name}.md)", _findings(findings)]
    facts = [verdict for findings in by_experiment.values() for verdict in facts_of(findings).values()]
    number = sum(map(len, by_experiment.values()))
    hold, not_, open_, untestable = (facts.count(verdict) for verdict in get_args(Verdict))
    introduction = (
        f"{len(facts)} claims of the papers were tested: {hold} hold, {not_} do not, {open_} are undecided, and "
        f"{untestable} are not testable. A claim that was tested in several settings counts once, under the verdict on "
        f"which all testable settings agree, or as undecided; there are {number} verdicts in all. "
        "[How verdicts are found](index.md#how-verdicts-are-found)."
    )
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
            times = round(seconds), round(float(record["seconds elapsed"])), record["processes"]
            rows.append((link, len(record["results"]), *times, record["date"], record.get("commit", "unknown")))
    total, elapsed = sum(row[2] for row in rows) / 60, sum(row[3] for row in rows) / 60
    processes = ", ".join(sorted({row[4] for row in rows}))
    introduction = (
        f"All {len(rows)} experiments together took {total:.0f} minutes of computing (CPU time, summed over their "
        f"tasks, each of which uses one thread) and {elapsed:.0f} minutes on the clock, with {processes} tasks at a "
        "time. `make reproduce` runs as many tasks at a time as there are cores, and those that measure time alone."
    )
    columns = ("experiment", "tasks", "CPU seconds", "seconds elapsed", "tasks at a time", "date", "commit")
    table = Table("Computing time", columns, rows)
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


def facts_of(findings: Sequence[Finding]) -> dict[str, Verdict]:
    """Return the verdict on each fact: that of its findings that are testable if they agree, else undecided.

    >>> facts_of([Finding("a, here", "", "holds", "", "a"), Finding("a, there", "", "undecided", "", "a")])
    {'a': 'undecided'}
    >>> facts_of([Finding("a", "", "holds", ""), Finding("b", "", "not testable", "")])
    {'a': 'holds', 'b': 'not testable'}
    >>> facts_of([Finding("a, here", "", "holds", "", "a"), Finding("a, there", "", "not testable", "", "a")])
    {'a': 'holds'}
    """
    by_fact: dict[str, list[Verdict]] = {}
    for one in findings:
        by_fact.setdefault(one.fact or one.claim, []).append(one.verdict)
    testable = {fact: [one for one in verdicts if one != "not testable"] for fact, verdicts in by_fact.items()}
    return {fact: unanimous(verdicts or ["not testable"]) for fact, verdicts in testable.items()}


def _page(experiment: Experiment, report: Report, facts: Mapping[str, str]) -> str:
    reproduced = [f"Reproduces {experiment.source}."] if experiment.of_paper else []
    blocks = [f"# {experiment.title}", *reproduced, experiment.about.strip()]
    if facts["size"] == "miniature":
        blocks.append("**A miniature, run on a few queries: its numbers mean nothing.**")
    for section in report.sections:
        blocks += [f"## {section.title}", section.text, *(table.markdown() for table in section.tables)]
        blocks += [_picture(experiment, picture) for picture in section.pictures]
    if report.findings:
        blocks += ["## Findings", _findings(report.findings)]
    if report.tables:
        blocks += ["## Tables", *(table.markdown() for table in report.tables)]
    if report.pictures:
        blocks += ["## Plots", *(_picture(experiment, picture) for picture in report.pictures)]
    if report.notes:
        title = "Differences from the paper" if experiment.of_paper else "Notes"
        blocks += [f"## {title}", "\n".join(f"- {note}" for note in report.notes)]
    blocks += ["## How to reproduce this", f"```console\n$ {facts['command']}\n```"]
    blocks.append("\n".join(f"- {name}: {text}" for name, text in facts.items() if name not in ("command", "size")))
    return "\n\n".join(blocks) + "\n"


def _picture(experiment: Experiment, picture: Picture) -> str:
    return f"![{picture.caption}]({experiment.name}-{picture.name}.svg)\n\n{picture.caption}"


def _findings(findings: Sequence[Finding]) -> str:
    """Write a table of findings; those that restate one fact stand together under it."""
    lines = ["| claim | source | verdict | evidence |", "| :--- | :--- | :--- | :--- |"]
    for fact, verdict in facts_of(findings).items():
        members = [one for one in findings if (one.fact or one.claim) == fact]
        if members[0].fact:
            counts = Counter(one.verdict for one in members)
            settings = ", ".join(f"{counts[verdict]} {verdict}" for verdict in get_args(Verdict) if counts[verdict])
            lines.append(_row(f"**{fact.removesuffix('.')}**, in {len(members)} settings", "", verdict, settings))
        lines += [_row(one.claim, one.source, one.verdict, one.evidence) for one in members]
    return "\n".join(lines)


def _row(claim: str, source: str, verdict: str, evidence: str) -> str:
    cells = (claim, source, f"**{verdict}**", evidence)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


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
