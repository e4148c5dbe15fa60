"""The demo, in small."""

from __future__ import annotations

import pytest

from marginrank.reporting import demo


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(demo.learn, "__defaults__", (40, 40))


@pytest.mark.slow
def test_the_page_shows_what_was_found_and_needs_no_network(run, folder, small):
    done = run("demo", "--page", "digits.html", "--json")
    assert done.code == 0
    means, gaps = done.json["mean"], done.json["gap"]
    assert set(means) == {"euclidean", "svmmap", "svmndcg"}
    assert all(0 <= gap <= 1e-3 * done.json["objective"][name] for name, gap in gaps.items())
    page = (folder / "digits.html").read_text()
    for name in means:
        assert f"<td>{name}</td><td>{means[name]['ap']:.4f}</td>" in page
    assert page.count("data:image/png;base64,") == 3
    assert "http" not in page


@pytest.mark.slow
def test_the_text_is_a_table_with_significance_and_certificates(run, folder, small):
    done = run("demo")
    assert done.code == 0
    assert "p Wilcoxon" in done.out
    assert "% above the optimum" in done.out
    assert (folder / "demo.html").exists()


def test_an_existing_page_is_kept(fails, folder, small):
    (folder / "demo.html").write_text("mine")
    assert "exists" in fails("demo", code=1)
    assert (folder / "demo.html").read_text() == "mine"
