"""Mistakes that people make in Python and on the command line; ``python -m tests.mistakes`` prints the messages."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from typer.testing import CliRunner

import marginrank as mr
from marginrank.cli.app import app
from marginrank.data import write_letor

DATA, VALUE, TYPE = mr.DataError, ValueError, TypeError
#: Exit codes.
INPUT, USAGE = 1, 2


class Desk:
    """What people have before them: arrays, a frame, queries and a ranker."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.X = rng.standard_normal((24, 3)).round(3)
        self.y = np.digitize(self.X[:, 0], [0.0, 1.0])
        self.qid = np.repeat(np.arange(6), 4)
        self.frame = pd.DataFrame(self.X, columns=["bm25", "age", "clicks"])
        self.table = self.frame.assign(query=self.qid, label=self.y)
        self.queries = mr.Queries.from_arrays(self.X, self.y, qid=self.qid)
        self.ranker = mr.Ranker("svmmap", C=1.0)
        self.fitted = mr.Ranker("svmmap", C=1.0).fit(self.frame, self.y, qid=self.qid)

    def fit(self, *args: Any, **options: Any) -> Any:
        """Fit a ranker that is not fitted yet."""
        return mr.Ranker("svmmap", C=1.0).fit(*args, **options)


@dataclass(frozen=True)
class InPython:
    """A call that is refused.

    Args:
        what: The mistake, in a few words.
        call: The call.
        error: The type of the error.
        said: Words that the message has to have: what is wrong, and what to do.
    """

    what: str
    call: Callable[[Desk], Any]
    error: type[Exception]
    said: tuple[str, ...]

    def message(self, desk: Desk) -> Exception:
        """Make the mistake, and return what was raised."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.call(desk)
        except Exception as error:
            return error
        raise AssertionError(f"{self.what}: nothing was raised")


@dataclass(frozen=True)
class OnTheCommandLine:
    """A command that is refused, in a folder that `desk_folder` fills."""

    command: str
    code: int
    said: tuple[str, ...]

    @property
    def what(self) -> str:
        """The command."""
        return f"marginrank {self.command}"

    def run(self) -> Any:
        """Run the command here."""
        return CliRunner().invoke(app, _words(self.command), catch_exceptions=False)


def _words(command: str) -> list[str]:
    return shlex.split(command)


IN_PYTHON: Sequence[InPython] = (
    # Shapes and types.
    InPython(
        "one feature as a list of numbers",
        lambda d: d.fit(d.X[:, 0], d.y, qid=d.qid),
        DATA,
        ("X has 1 dimension, not 2", "X.reshape(-1, 1)"),
    ),
    InPython(
        "fewer grades than rows",
        lambda d: d.fit(d.X, d.y[:5], qid=d.qid),
        DATA,
        ("y has 5 entries for 24 rows of X", "one per row"),
    ),
    InPython(
        "two columns of grades",
        lambda d: d.fit(d.X, np.c_[d.y, d.y], qid=d.qid),
        DATA,
        ("y has 2 dimensions", "give one grade per document"),
    ),
    InPython(
        "text labels",
        lambda d: d.fit(d.X, ["good", "bad"] * 12, qid=d.qid),
        DATA,
        ("y holds 'good'", "map labels to grades"),
    ),
    InPython("negative grades", lambda d: d.fit(d.X, d.y - 2, qid=d.qid), DATA, ("y[", "is -2", "y - y.min()")),
    InPython(
        "grades that are missing",
        lambda d: d.fit(d.X, np.full(len(d.y), np.nan), qid=d.qid),
        DATA,
        ("no document is judged", "give some grades"),
    ),
    InPython(
        "a text column",
        lambda d: d.fit(d.frame.assign(title="numpy"), d.y, qid=d.qid),
        DATA,
        ("column 'title' of X holds 'numpy'", "leave it out"),
    ),
    InPython(
        "a column of dates",
        lambda d: d.fit(d.frame.assign(day=pd.Timestamp("2024-01-01")), d.y, qid=d.qid),
        DATA,
        ("column 'day' of X holds datetime64", "convert it"),
    ),
    InPython(
        "two columns of one name",
        lambda d: d.fit(pd.DataFrame(d.X, columns=["a", "a", "b"]), d.y, qid=d.qid),
        DATA,
        ("two columns called 'a'", "rename one"),
    ),
    InPython(
        "rows of different lengths",
        lambda d: d.fit([[1.0, 2.0], [3.0]], [1, 0], qid=[1, 1]),
        DATA,
        ("different lengths, 1, 2", "give each a value per feature"),
    ),
    InPython(
        "an empty frame",
        lambda d: d.fit(d.frame[:0], d.y[:0], qid=d.qid[:0]),
        DATA,
        ("X has no rows", "give at least one query"),
    ),
    InPython(
        "a frame without columns",
        lambda d: d.fit(d.X[:, :0], d.y, qid=d.qid),
        DATA,
        ("0 feature(s)", "give at least one column"),
    ),
    InPython(
        "NaN",
        lambda d: d.fit(np.where(d.X > 1, np.nan, d.X), d.y, qid=d.qid),
        DATA,
        ("is NaN", "fill it", "linear(missing=mean)"),
    ),
    InPython("inf", lambda d: d.fit(np.where(d.X > 1, np.inf, d.X), d.y, qid=d.qid), DATA, ("is inf", "replace it")),
    # Queries.
    InPython("no queries", lambda d: d.fit(d.X, d.y), DATA, ("training needs the queries", "give qid")),
    InPython(
        "queries by position",
        lambda d: d.fit(d.X, d.y, d.qid),
        TYPE,
        ("fit takes 2 positional arguments, not 3", "fit(X, y, qid=qid)"),
    ),
    InPython(
        "qid of another length",
        lambda d: d.fit(d.X, d.y, qid=d.qid[:7]),
        DATA,
        ("qid has shape (7,) for 24 rows", "one query id per row"),
    ),
    InPython(
        "group sizes that do not add up",
        lambda d: d.fit(d.X, d.y, group=[4, 4]),
        DATA,
        ("group sums to 8 but there are 24 rows", "count every row once"),
    ),
    InPython(
        "query ids as group",
        lambda d: d.fit(d.X, d.y, group=d.qid),
        DATA,
        ("looks like a query id per row", "pass it as qid="),
    ),
    InPython(
        "one grade everywhere",
        lambda d: d.fit(d.X, np.ones(24), qid=d.qid),
        DATA,
        ("nothing to learn", "documents of different grades"),
    ),
    InPython(
        "one query to choose C by",
        lambda d: mr.tune(d.ranker, d.X[:4], d.y[:4], qid=d.qid[:4]),
        DATA,
        ("one query cannot be split into folds", "give validation queries"),
    ),
    InPython(
        "the same queries twice",
        lambda d: mr.Queries.concatenate([d.queries, d.queries]),
        DATA,
        ("query 0 is in more than one part", "distinct ids"),
    ),
    InPython("grades beside Queries", lambda d: d.fit(d.queries, d.y), DATA, ("includes grades", "pass it without y")),
    InPython(
        "a query id column that is not there",
        lambda d: mr.from_frame(d.table, qid="qury", grade="label"),
        DATA,
        ("no column 'qury'", "did you mean 'query'?"),
    ),
    InPython("a frame to read", lambda d: mr.read(d.table), TYPE, ("this is a DataFrame", "from_frame")),
    InPython("a query id as position", lambda d: d.queries["q7"], TYPE, ("numbered from 0", "select(['q7'])")),
    InPython("a query id to select", lambda d: d.queries.select("q7"), TYPE, ("a list", "select(['q7'])")),
    InPython("a list as frame", lambda _: mr.from_frame([1, 2, 3]), TYPE, ("not a list", "Queries.from_arrays")),
    # Parameters.
    InPython("C as text", lambda d: mr.Ranker(C="1").fit(d.queries), TYPE, ("C is '1'", "positive number")),
    InPython("C below 0", lambda d: mr.Ranker(C=-1).fit(d.queries), VALUE, ("C is -1", "positive number")),
    InPython("a parameter in small letters", lambda _: mr.Ranker(c=3), TYPE, ("no parameter 'c'", "did you mean 'C'?")),
    InPython("two positional arguments", lambda _: mr.Ranker("ap", 10), TYPE, ("pass the others by keyword",)),
    InPython(
        "a parameter to set in small letters",
        lambda d: d.ranker.set_params(c=3),
        VALUE,
        ("Ranker has no parameter 'c'", "did you mean 'C'?"),
    ),
    InPython(
        "a seed that is text",
        lambda d: mr.Ranker(random_state="a").fit(d.queries),
        TYPE,
        ("random_state is 'a'", "give a whole number"),
    ),
    InPython(
        "a seed below 0",
        lambda d: mr.tune(d.ranker, d.queries, random_state=-1),
        VALUE,
        ("random_state is -1", "0 and"),
    ),
    InPython(
        "a patience of 0",
        lambda d: mr.Ranker("ap", patience=0).fit(d.queries),
        VALUE,
        ("patience is 0", "at least one"),
    ),
    InPython(
        "a number as measure",
        lambda d: mr.Ranker(measure=10).fit(d.queries),
        TYPE,
        ("measure is 10; give a Measure or its spelling", "ndcg@10"),
    ),
    InPython(
        "a misspelled method",
        lambda d: mr.Ranker("svmmpa").fit(d.queries),
        VALUE,
        ("'svmmpa'", "did you mean 'svmmap'?"),
    ),
    InPython(
        "a misspelled solver",
        lambda d: mr.Ranker(solver="bundel").fit(d.queries),
        VALUE,
        ("'bundel'", "did you mean 'bundle'?"),
    ),
    InPython(
        "a misspelled scaling",
        lambda d: mr.Ranker(scaling="standart").fit(d.queries),
        VALUE,
        ("'standart'", "did you mean 'standard'?"),
    ),
    InPython(
        "a misspelled measure",
        lambda d: mr.evaluate(d.queries, d.X[:, 0], "ndgc@10"),
        VALUE,
        ("'ndgc@10'", "did you mean 'ndcg@10'?"),
    ),
    InPython(
        "a cutoff that is no number",
        lambda d: mr.evaluate(d.queries, d.X[:, 0], "ndcg@x"),
        VALUE,
        ("'ndcg@x'", "ndcg@10"),
    ),
    InPython(
        "LightGBM's eval_set",
        lambda d: d.fit(d.X, d.y, qid=d.qid, eval_set=[(d.X, d.y)]),
        TYPE,
        ("fit has no eval_set", "validation="),
    ),
    InPython(
        "a misspelled argument",
        lambda d: d.fit(d.X, d.y, qid=d.qid, validaton=d.queries),
        TYPE,
        ("'validaton'", "did you mean 'validation'?"),
    ),
    InPython(
        "a parameter of the scorer in a grid",
        lambda d: mr.tune(d.ranker, d.queries, grid={"bins": [8]}),
        VALUE,
        ("'bins'", "scorer__bins"),
    ),
    InPython(
        "a measure instead of a ranker", lambda d: mr.tune("ap", d.queries), TYPE, ("takes a ranker first", "Ranker(")
    ),
    InPython("one number as Cs", lambda d: mr.tune(d.ranker, d.queries, Cs=3), TYPE, ("Cs is 3", "give a list")),
    # Models, scores and files.
    InPython(
        "columns in another order",
        lambda d: d.fitted.predict(d.frame[["age", "bm25", "clicks"]]),
        DATA,
        ("in another order", "give bm25, age, clicks"),
    ),
    InPython(
        "a column that is missing",
        lambda d: d.fitted.predict(d.frame[["bm25", "age"]]),
        DATA,
        ("no column 'clicks'", "give the same columns"),
    ),
    InPython(
        "fewer columns",
        lambda d: d.fitted.predict(d.X[:, :2]),
        DATA,
        ("X has 2 features", "give the columns that it was trained on"),
    ),
    InPython(
        "a path instead of data", lambda d: d.fitted.predict("test.txt"), TYPE, ("X is 'test.txt'", "read('test.txt')")
    ),
    InPython("a ranker that is not fitted", lambda d: d.ranker.predict(d.X), VALUE, ("not fitted yet", "fit")),
    InPython("scores first", lambda d: mr.evaluate(d.X[:, 0], d.queries), TYPE, ("evaluate takes (queries, scores)",)),
    InPython(
        "too few scores",
        lambda d: mr.evaluate(d.queries, d.X[:5, 0]),
        DATA,
        ("scores have shape (5,) for 24 documents", "give one number for each"),
    ),
    InPython("k = 0", lambda d: d.fitted.rank(d.queries, k=0), VALUE, ("k is 0", "at least one")),
    InPython(
        "a feature that is not there",
        lambda d: mr.from_frame(d.table, qid="query", grade="label").feature("bm52"),
        DATA,
        ("no feature 'bm52'", "did you mean 'bm25'?"),
    ),
    InPython(
        "a file that is not there",
        lambda _: mr.read("nowhere.txt"),
        FileNotFoundError,
        ("nowhere.txt: no such file", "check the name"),
    ),
    InPython(
        "a folder instead of a file", lambda _: mr.read("."), DATA, ("this is a folder", "give the name of a file")
    ),
    InPython(
        "data instead of a model",
        lambda _: mr.load("test.txt"),
        DATA,
        ("test.txt: this is text, not a marginrank model", "give the file"),
    ),
    InPython(
        "a folder that is not there",
        lambda d: d.fitted.save("nowhere/model.safetensors"),
        FileNotFoundError,
        ("nowhere: no such folder", "create it first"),
    ),
)

ON_THE_COMMAND_LINE: Sequence[OnTheCommandLine] = (
    # Files.
    OnTheCommandLine(
        "train trian.txt -o new.safetensors", INPUT, ("trian.txt: no such file", "did you mean 'train.txt'?")
    ),
    OnTheCommandLine("train . -o new.safetensors", INPUT, (".: this is a folder", "give the name of a file")),
    OnTheCommandLine("train empty.txt -o new.safetensors", INPUT, ("empty.txt: no data in this file", "it is empty")),
    OnTheCommandLine("train binary.txt -o new.safetensors", INPUT, ("binary.txt:1:", "not a text file")),
    OnTheCommandLine(
        "train gaps.txt -C 1 -o new.safetensors",
        INPUT,
        ("gaps.txt:1:11: missing value 'NULL'", "use --scorer 'linear(missing=mean)', or fill it"),
    ),
    OnTheCommandLine("train judged.xlsx -o new.safetensors", INPUT, ("this is a spreadsheet", "save it as CSV")),
    OnTheCommandLine(
        "rank model.safetensors words.csv -o new.run", INPUT, ("topic 'red shoes' cannot be in a TREC run", ".csv")
    ),
    OnTheCommandLine("train torn.txt -C 1 -o new.safetensors", INPUT, ("query 1 appears again", "pass --regroup")),
    OnTheCommandLine("train negative.txt -C 1 -o new.safetensors", INPUT, ("negative.txt:1:1:", "grade")),
    OnTheCommandLine(
        "train flat.txt -C 1 -o new.safetensors", INPUT, ("nothing to learn", "documents of different grades")
    ),
    OnTheCommandLine("train train.parquet --qid qury -C 1 -o new.safetensors", INPUT, ("no column 'qury'", "'qid'")),
    OnTheCommandLine(
        "train titles.parquet -C 1 --feature 'title,bm25' -o new.safetensors",
        INPUT,
        ("column 'title' holds text", "--feature"),
    ),
    OnTheCommandLine(
        "train train.txt -o nowhere/new.safetensors", INPUT, ("nowhere: no such folder", "create it first")
    ),
    OnTheCommandLine("train train.txt -o train.txt --force", INPUT, ("both input and output", "choose another name")),
    OnTheCommandLine("train train.txt -o model.safetensors", INPUT, ("model.safetensors: already exists", "--force")),
    # Order, and one thing in the place of another.
    OnTheCommandLine(
        "rank test.txt model.safetensors",
        USAGE,
        ("the model comes first", "marginrank rank model.safetensors test.txt"),
    ),
    OnTheCommandLine(
        "evaluate model.safetensors test.txt",
        USAGE,
        ("the judged data comes first", "marginrank evaluate test.txt model.safetensors"),
    ),
    OnTheCommandLine(
        "rank test.txt test.txt", INPUT, ("test.txt: this is text, not a marginrank model", "give the file")
    ),
    OnTheCommandLine(
        "rank model.safetensors narrow.txt", INPUT, ("narrow.txt: the data has 2 features", "give the same columns")
    ),
    OnTheCommandLine("evaluate test.txt narrow.txt", INPUT, ("narrow.txt: this is not a system", "give a model")),
    OnTheCommandLine("evaluate test.txt short.txt", INPUT, ("short.txt: scores has 2 entries", "one per document")),
    OnTheCommandLine("explain model.safetensors test.txt --query 17", INPUT, ("no query '17'", "known: 0, 1")),
    OnTheCommandLine(
        "explain model.safetensors test.txt --query 0 --document d9", INPUT, ("no document 'd9'", "known:")
    ),
    # Options.
    OnTheCommandLine("trian train.txt", USAGE, ("No such command 'trian'", "Did you mean 'train'")),
    OnTheCommandLine("train train.txt --prest svmmap -o new.safetensors", USAGE, ("--prest", "--preset")),
    OnTheCommandLine("train train.txt", USAGE, ("Missing option '--out'", "--help")),
    OnTheCommandLine(
        "train train.txt --preset svmmpa -o new.safetensors", USAGE, ("'svmmpa'", "did you mean 'svmmap'?")
    ),
    OnTheCommandLine(
        "train train.txt --solver bundel -o new.safetensors", USAGE, ("'bundel'", "did you mean 'bundle'?")
    ),
    OnTheCommandLine("train train.txt -C one -o new.safetensors", USAGE, ("-C: give a number",)),
    OnTheCommandLine("train train.txt -C -1 -o new.safetensors", USAGE, ("-C is -1", "positive number")),
    OnTheCommandLine("train train.txt --tol -1 -o new.safetensors", USAGE, ("--tol is -1.0", "must not be negative")),
    OnTheCommandLine(
        "train train.txt --folds 40 -o new.safetensors", INPUT, ("--folds is 40 for 6 queries", "at most one per query")
    ),
    OnTheCommandLine("train train.txt --bins 8 -o new.safetensors", USAGE, ("--bins requires --scorer additive",)),
    OnTheCommandLine(
        "train train.txt --scorer additive --monotone 7=increasing -C 1 -o new.safetensors",
        INPUT,
        ("no feature 7", "known: 1, 2, 3"),
    ),
    OnTheCommandLine(
        "train train.txt --preset best-feature -C 1 -o new.safetensors",
        USAGE,
        ("--preset best-feature has no C", "leave it out"),
    ),
    OnTheCommandLine(
        "train train.txt --valid test.txt --folds 3 -o new.safetensors", USAGE, ("give --valid or --folds, not both",)
    ),
    OnTheCommandLine(
        "train train.txt --qid query -C 1 -o new.safetensors",
        USAGE,
        ("--qid does not apply: train.txt is text", "leave it out"),
    ),
    OnTheCommandLine("rank model.safetensors test.txt --k 0", USAGE, ("--k: give 1 or more",)),
    OnTheCommandLine("rank model.safetensors test.txt --tag mine", USAGE, ("--tag requires --format trec",)),
    OnTheCommandLine("evaluate test.txt model.safetensors -m ndgc@10", USAGE, ("'ndgc@10'", "did you mean 'ndcg@10'?")),
    OnTheCommandLine("evaluate test.txt model.safetensors -m ndcg@x", USAGE, ("'ndcg@x'", "ndcg@10")),
    OnTheCommandLine("compare test.txt model.safetensors", USAGE, ("needs two systems", "or --baseline")),
    OnTheCommandLine(
        "report test.txt model.safetensors --policy letor5", USAGE, ("unknown policy 'letor5'", "did you mean 'letor")
    ),
    OnTheCommandLine("convert train.txt", USAGE, ("give the files to read, then the file to write",)),
    OnTheCommandLine("convert train.txt train.docx", INPUT, ("unknown suffix '.docx'", "write one of")),
)


def _fill(folder: Path) -> None:
    desk = Desk()
    write_letor(folder / "train.txt", desk.queries)
    write_letor(folder / "test.txt", desk.queries)
    write_letor(folder / "narrow.txt", desk.queries.with_features(desk.X[:, :2]))
    write_letor(folder / "flat.txt", mr.Queries.from_arrays(desk.X, np.ones(24), qid=desk.qid))
    mr.Ranker("svmmap", C=1.0).fit(mr.read(folder / "train.txt")).save(folder / "model.safetensors")
    table = desk.frame.assign(qid=desk.qid, grade=desk.y)
    table.to_parquet(folder / "train.parquet")
    table.assign(title="numpy").to_parquet(folder / "titles.parquet")
    (folder / "empty.txt").write_text("")
    (folder / "binary.txt").write_bytes(bytes(range(256)))
    (folder / "gaps.txt").write_text("1 qid:1 1:NULL 2:2\n0 qid:1 1:3 2:4\n")
    (folder / "judged.xlsx").write_bytes(b"PK\x03\x04")
    (folder / "words.csv").write_text("qid,1,2,3\nred shoes,1,0,2\nred shoes,0,1,1\n")
    (folder / "torn.txt").write_text("1 qid:1 1:1\n0 qid:2 1:3\n0 qid:1 1:0\n")
    (folder / "negative.txt").write_text("-2 qid:1 1:1\n0 qid:1 1:3\n")
    (folder / "short.txt").write_text("0.5\n0.25\n")


@cache
def _filled() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mistakes-"))
    _fill(folder)
    return folder


@contextmanager
def desk_folder() -> Iterator[Path]:
    """Work in a copy of a folder with data, a model, and files that are wrong."""
    with tempfile.TemporaryDirectory() as copied:
        shutil.copytree(_filled(), copied, dirs_exist_ok=True)
        before = os.environ.get("COLUMNS")
        os.environ["COLUMNS"] = "200"
        try:
            with chdir(copied):
                yield Path(copied)
        finally:
            os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)


def main() -> None:
    """Print every mistake with its message."""
    desk = Desk()
    with desk_folder():
        for number, mistake in enumerate([*IN_PYTHON, *ON_THE_COMMAND_LINE], 1):
            if isinstance(mistake, InPython):
                error = mistake.message(desk)
                print(f"{number:3}. {mistake.what}\n     {type(error).__name__}: {error}")
            else:
                done = mistake.run()
                print(f"{number:3}. {mistake.what}\n     {done.stderr.strip()} (exit code {done.exit_code})")


if __name__ == "__main__":
    main()
