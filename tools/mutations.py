"""Break the code at random places, and see which breaks the tests notice.

A suite that is rewritten must protect as much as before. Draw mutations once, measure which tests run each line, and
try every mutation against the tests that run its line. After the rewrite, find the mutations in the new code:

    python tools/mutations.py draw mutations.json --seed 26 --count 120
    python tools/mutations.py watch mutations.json --hits hits     # the files of the checkout note which tests run them
    pytest; git checkout .
    python tools/mutations.py try mutations.json --hits hits --results before.json
    python tools/mutations.py locate mutations.json moved.json --checkout ../new
    python tools/mutations.py compare before.json after.json

``locate`` prints the places that it cannot find. ``try`` changes the files of a checkout without uncommitted changes,
one line at a time, and restores each of them. A test runs a line also if a process that it starts does.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SOURCES = ("core/src", "builtin_trainers/*/src", "plugins/*/src")
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "is not": "is"}
COMPARISONS |= {"in": "not in", "not in": "in"}
OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
}
MOST_TESTS = 60
SECONDS = 180


class Places(ast.NodeVisitor):
    """Collects the replacements that a file allows: (line, column, end line, end column, new text, kind, name)."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines(keepends=True)
        self.found: list[dict[str, Any]] = []
        self.names: list[str] = []

    def replace(self, node: Any, new: str, kind: str) -> None:
        if node.lineno == node.end_lineno and self.names:
            line = self.lines[node.lineno - 1].encode()
            old = line[node.col_offset : node.end_col_offset].decode()
            after = line[: node.col_offset].decode() + new + line[node.end_col_offset :].decode()
            entry = {"line": node.lineno, "name": ".".join(self.names), "kind": kind, "old": old, "new": new}
            self.found.append({**entry, "before": line.decode().rstrip("\n"), "after": after.rstrip("\n")})

    def visit_FunctionDef(self, node: Any) -> None:
        self.names.append(node.name)
        for statement in node.body:  # not its decorators, defaults and annotations
            self.visit(statement)
        self.names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.names.append(node.name)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                self.visit(statement)
        self.names.pop()

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave the texts of errors alone."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts alone."""

    def visit_Compare(self, node: ast.Compare) -> None:
        text = ast.unparse(node)
        generic = len(node.ops) == 1
        if generic:
            left = ast.unparse(node.left)
            right = ast.unparse(node.comparators[0])
            sign = text[len(left) : len(text) - len(right)].strip()
            if sign in COMPARISONS:
                self.replace(node, f"{left} {COMPARISONS[sign]} {right}", "comparison")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        for kind, (_, other) in OPERATORS.items():
            if isinstance(node.op, kind):
                self.replace(node, f"({ast.unparse(node.left)}) {other} ({ast.unparse(node.right)})", "operator")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = " or " if isinstance(node.op, ast.And) else " and "
        self.replace(node, f"({other.join(f'({ast.unparse(value)})' for value in node.values)})", "and-or")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.replace(node, repr(not node.value), "constant")
        elif isinstance(node.value, int | float):
            self.replace(node, repr(node.value + 1), "constant")

    def visit_If(self, node: ast.If) -> None:
        self.replace(node.test, f"not ({ast.unparse(node.test)})", "condition")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self.replace(node, "return None", "return")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.replace(node, "pass", "call")
        self.generic_visit(node)


def mutations_of(checkout: Path) -> Iterator[dict[str, Any]]:
    for pattern in SOURCES:
        for file in sorted(checkout.glob(f"{pattern}/**/*.py")):
            text = file.read_text()
            places = Places(text)
            places.visit(ast.parse(text))
            for found in places.found:
                yield {"file": str(file.relative_to(checkout)), **found}


def draw(checkout: Path, seed: int, count: int) -> list[dict[str, Any]]:
    """Draw mutations with different lines; a mutation that does not compile is no mutation."""
    drawn: dict[tuple[str, int], dict[str, Any]] = {}
    every = list(mutations_of(checkout))
    random.Random(seed).shuffle(every)
    for found in every:
        if len(drawn) == count:
            break
        try:
            ast.parse(mutated((checkout / found["file"]).read_text(), found))
        except SyntaxError:
            continue
        drawn.setdefault((found["file"], found["line"]), found)
    return [{"number": number, **found} for number, found in enumerate(drawn.values(), 1)]


def mutated(text: str, mutation: dict[str, Any]) -> str:
    lines = text.splitlines(keepends=True)
    line = lines[mutation["line"] - 1]
    if line.rstrip("\n") != mutation["before"]:
        raise SystemExit(
            f"{mutation['file']}:{mutation['line']} is not the line of mutation {mutation['number']}: locate it"
        )
    lines[mutation["line"] - 1] = mutation["after"] + "\n"
    return "".join(lines)


def watch(checkout: Path, mutations: list[dict[str, Any]], hits: Path) -> None:
    """Write, before each statement with a mutation, one that notes the test that is running in a file of ``hits``."""
    hits.mkdir(parents=True, exist_ok=True)
    for name in sorted({mutation["file"] for mutation in mutations}):
        file = checkout / name
        text = file.read_text()
        lines = text.splitlines(keepends=True)
        here = [mutation for mutation in mutations if mutation["file"] == name]
        for mutation in sorted(here, key=lambda mutation: mutation["line"], reverse=True):
            line = statement_of(text, mutation["line"])
            indent = lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]
            lines.insert(line - 1, indent + NOTE.format(file=str(hits.resolve() / str(mutation["number"]))) + "\n")
        file.write_text("".join(lines))


NOTE = (
    "(lambda seen, test: test in seen or (seen.add(test), open({file!r}, 'a').write(test + '\\n')))"
    "(__import__('builtins').__dict__.setdefault('seen by ' + {file!r}, set()),"
    " __import__('os').environ.get('PYTEST_CURRENT_TEST', ''))"
)


def statement_of(text: str, line: int) -> int:
    """The line of the innermost statement that holds a line and that another statement can be written before."""
    best = 0
    for node in ast.walk(ast.parse(text)):
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            for statement in block if isinstance(block, list) else []:
                alternative = text.splitlines()[statement.lineno - 1].lstrip().startswith("elif ")
                if statement.lineno <= line <= (statement.end_lineno or 0) and not alternative:
                    best = max(best, statement.lineno)
    return best


def tests_of(mutation: dict[str, Any], hits: Path, checkout: Path) -> list[str]:
    """The tests that run the line: those first that run the fewest other lines with mutations.

    A test may run tests of another folder, in a process of its own: only those of the checkout are named.
    """
    noted = {file.name: {*map(test_id, file.read_text().splitlines())} for file in hits.iterdir()}
    lines_of = Counter(test for tests in noted.values() for test in tests)
    noted_here = noted.get(str(mutation["number"]), set())
    tests = {test for test in noted_here if test and (checkout / test.partition("::")[0]).is_file()}
    return sorted(tests, key=lambda test: (lines_of[test], test))[:MOST_TESTS]


def test_id(note: str) -> str:
    """The id of a test in a note: without the phase that ends it, and the group that pytest-xdist adds."""
    test = note.rpartition(" (")[0]
    before, _, group = test.rpartition("@")
    return before if before and "]" not in group else test


def try_one(checkout: Path, mutation: dict[str, Any], tests: list[str]) -> str:
    """Return "caught", "survived", "no test", or "tests fail without it"."""
    if not tests:
        return "no test"
    file = checkout / mutation["file"]
    text = file.read_text()
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]

    def run() -> subprocess.CompletedProcess[bytes] | None:
        try:
            return subprocess.run(command, cwd=checkout, capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return None

    try:
        file.write_text(mutated(text, mutation))
        broken = run()
    finally:
        file.write_text(text)
    caught = broken is None or broken.returncode != 0  # also if the tests cannot be imported
    if caught:
        whole = run()
        if whole is not None and whole.returncode in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
            raise SystemExit(whole.stderr.decode())
        if whole is None or whole.returncode != 0:
            return "tests fail without it"
    return "caught" if caught else "survived"


def locate(mutations: list[dict[str, Any]], checkout: Path) -> list[dict[str, Any]]:
    """Find the line of each mutation in another checkout: the same text, if possible in a function of the same name."""
    moved = []
    every = list(mutations_of(checkout))
    for mutation in mutations:
        same = [
            found
            for found in every
            if found["before"].strip() == mutation["before"].strip()
            and found["after"].strip() == mutation["after"].strip()
        ]
        for rule in (
            lambda found, m=mutation: found["file"] == m["file"] and found["name"] == m["name"],
            lambda found, m=mutation: found["name"] == m["name"],
            lambda found, m=mutation: found["name"].rsplit(".")[-1] == m["name"].rsplit(".")[-1],
            lambda found: True,
        ):
            fitting = [found for found in same if rule(found)]
            if fitting:
                break
        if len({(found["file"], found["line"]) for found in fitting}) == 1:
            moved.append({"number": mutation["number"], **fitting[0]})
        else:
            place = f"{mutation['file']}:{mutation['line']} in {mutation['name']}"
            print(f"{mutation['number']}: {place}: {len(fitting)} places")
            print(f"    {mutation['before'].strip()}\n    {mutation['after'].strip()}")
    return moved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["draw", "watch", "try", "locate", "compare"])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--checkout", type=Path, default=Path())
    parser.add_argument("--seed", type=int, default=26)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--hits", type=Path, default=Path("hits"))
    parser.add_argument("--results", type=Path, default=Path("results.json"))
    given = parser.parse_args()
    read = [json.loads(file.read_text()) for file in given.files if file.exists()]
    if given.command == "draw":
        given.files[0].write_text(json.dumps(draw(given.checkout, given.seed, given.count), indent=1))
    elif given.command == "watch":
        watch(given.checkout, read[0], given.hits)
    elif given.command == "locate":
        given.files[1].write_text(json.dumps(locate(read[0], given.checkout), indent=1))
    elif given.command == "compare":
        before, after = ({entry["number"]: entry["result"] for entry in file} for file in read)
        lost = [number for number in before if before[number] == "caught" and after.get(number) != "caught"]
        print(f"caught before: {list(before.values()).count('caught')}; after: {list(after.values()).count('caught')}")
        print(f"caught before and not after: {lost}")
        sys.exit(1 if lost else 0)
    else:
        if subprocess.run(["git", "diff", "--quiet"], cwd=given.checkout).returncode:
            parser.error("the checkout has uncommitted changes")
        results: list[dict[str, Any]] = json.loads(given.results.read_text()) if given.results.exists() else []
        done = {entry["number"] for entry in results}
        for mutation in read[0]:
            if mutation["number"] not in done:
                tests = tests_of(mutation, given.hits, given.checkout)
                results.append({**mutation, "tests": len(tests), "result": try_one(given.checkout, mutation, tests)})
                given.results.write_text(json.dumps(results, indent=1))
                print(f"{mutation['number']}: {results[-1]['result']} ({len(tests)} tests)", flush=True)


if __name__ == "__main__":
    main()
