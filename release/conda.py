"""The recipe for conda-forge, filled in for a release."""

from __future__ import annotations

from pathlib import Path

from release.builds import digest


def fill(root: Path, sdist: Path, dist: Path) -> str:
    """Write the recipe with the version and the digest of a source distribution; return its path and the version."""
    version = sdist.name.removeprefix("marginrank-").removesuffix(".tar.gz")
    template = (root / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    filled = template.replace("version: VERSION", f"version: {version}").replace("SHA256", digest(sdist))
    lines = [line for line in filled.splitlines(keepends=True) if not line.startswith("#")]
    (dist / "recipe.yaml").write_text("".join(lines), encoding="utf-8")
    return f"{dist.name}/recipe.yaml, version {version}"
