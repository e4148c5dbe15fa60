"""What the shell offers after Tab."""

from __future__ import annotations


def preset_names(incomplete: str) -> list[tuple[str, str]]:
    """Presets that begin so, each with what it is."""
    from marginrank.methods.presets import all_presets  # noqa: PLC0415

    return [(name, preset.summary) for name, preset in all_presets().items() if name.startswith(incomplete)]


def measure_names(incomplete: str) -> list[tuple[str, str]]:
    """Measures that begin so, each with what it is, and with a cutoff where it takes one."""
    from dataclasses import MISSING, fields  # noqa: PLC0415

    from marginrank.measures import all_measures  # noqa: PLC0415

    offered = []
    for name, kind in all_measures().items():
        summary = (kind.__doc__ or "").splitlines()[0]
        cuts = [field for field in fields(kind) if field.name == "k"]
        offered += [(f"{name}@10", summary) for _ in cuts]
        offered += [(name, summary)] if all(field.default is not MISSING for field in cuts) else []
    return sorted(entry for entry in offered if entry[0].startswith(incomplete))


def policy_names(incomplete: str) -> list[tuple[str, str]]:
    """Policies that begin so, each with what it is."""
    from marginrank.evaluation.policies import POLICIES  # noqa: PLC0415

    return [(name, policy.summary) for name, policy in POLICIES.items() if name.startswith(incomplete)]
