#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The conformance tables in docs against the tree: every file and test that they name exists, and cargo runs every such test.

    scripts/check-conformance.py [--listed FILE] [--draft DRAFT]...

Without --listed it asks cargo itself for the tests; FILE is the saved output (both streams) of the command LIST. Every requirement sentence
and every section of the three drafts in drafts.txt has its rows. --draft adds: these are the sentences and sections of the draft.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import drafts

ROOT = Path(__file__).resolve().parent.parent
# By the letter that its rows begin with: the table, and the draft's docName.
TABLES = {
    "L": ("docs/conformance.md", "draft-li-spring-rdma-multicast-over-srv6"),
    "T": ("docs/conformance-long-haul.md", "draft-tian-ccwg-long-haul-cnp"),
    "F": ("docs/conformance-paths.md", "draft-filsfils-srv6-ai-backends"),
}
# What `cargo build --workspace --all-targets` has built, in the same features: nothing is compiled for it again.
LIST = ["cargo", "test", "--workspace", "--lib", "--bins", "--tests", "--", "--list"]
ROW_ID = re.compile(r"[LTF]-(\d+(?:\.\d+)*)-\d+[a-z]?")
NAMED = re.compile(r"`([^`:\s]+\.rs):(\w+)`")
NONE, NOT_BUILT = "—", "not implemented"
# A requirement that people meet, not a program: it has neither file nor test, and the last cell names who meets it.
FOR_PEOPLE = "for people"


def read_table(text, letter="L"):
    """Rows as (id, [requirement, where, test, note]), and what is wrong with their form."""
    rows, problems = [], []
    for line in text.splitlines():
        if not line.startswith(f"| {letter}-"):
            continue
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if len(cells) != 5 or not all(cells) or not ROW_ID.fullmatch(cells[0]):
            problems.append(f"{cells[0]}: write five filled cells, the first like {letter}-6.2-1")
        else:
            rows.append((cells[0], cells[1:]))
    twice = [i for i, n in Counter(i for i, _ in rows).items() if n > 1]
    problems += [f"{i}: is there twice: number the rows apart" for i in twice]
    return rows, problems


def attributes_of(text, fn):
    """The attributes above each definition of `fn` in Rust source, as text; comments are not attributes."""
    lines, found = text.splitlines(), []
    for at, line in enumerate(lines):
        if not re.match(rf"\s*(pub )?(async )?fn {fn}\b", line):
            continue
        above = []
        for before in reversed(lines[:at]):
            before = before.strip()
            if not before or before.endswith(("{", "}", ";")) or before.startswith("//!"):
                break
            if not before.startswith("//"):
                above.insert(0, before)
        found.append("\n".join(above))
    return found


def in_source(root, file, fn):
    """What is wrong with a test's definition, or None."""
    path = root / file
    if not path.is_file():
        return f"{file} does not exist: correct the path"
    found = attributes_of(path.read_text(), fn)
    if not found:
        return f"{file} has no fn {fn}: name a test that it has"
    if not any(re.search(r"#\[(tokio::)?test\b", a) for a in found):
        return f"fn {fn} in {file} is not a test: put #[test] on it or name one that is"
    if any(re.search(r"\bignore\b", a) for a in found):
        return f"{fn} in {file} is ignored: remove #[ignore] or name a test that runs"
    return None


def read_lists(text):
    """Test names by the crate name of the program that runs them, from `cargo test -- --list`."""
    runs, program = defaultdict(set), None
    for line in text.splitlines():
        if m := re.match(r"\s*Running .*\((?:.*[/\\])?(\w[\w-]*)-[0-9a-f]+(?:\.exe)?\)", line):
            program = m[1].replace("-", "_")
        elif "Doc-tests" in line:
            program = None
        elif program and (m := re.fullmatch(r"([\w:]+): test", line.strip())):
            runs[program].add(m[1])
    return runs


def programs_of(root, file):
    """The programs that a source file is compiled into for testing, and its module path in them."""
    crate = (root / file).parent
    while not (crate / "Cargo.toml").is_file():
        if crate == crate.parent:
            return set(), ""
        crate = crate.parent
    kind, *parts = (root / file).relative_to(crate).with_suffix("").parts
    if kind == "tests" and parts:
        program, *module = parts
        module = [] if module == ["main"] else module
        return {program.replace("-", "_")}, "::".join(module)
    manifest = tomllib.loads((crate / "Cargo.toml").read_text())
    targets = [manifest.get("package", {}), manifest.get("lib", {}), *manifest.get("bin", [])]
    names = {t["name"].replace("-", "_") for t in targets if "name" in t}
    if parts and parts[-1] in ("mod", "lib", "main"):
        parts.pop()
    return names, "::".join(parts)


def in_lists(root, runs, file, fn):
    """What is wrong with a test that is in the source, or None."""
    programs, module = programs_of(root, file)
    prefix = f"{module}::" if module else ""
    for name in set().union(*(runs.get(p, set()) for p in programs)):
        if name.startswith(prefix) and name.split("::")[-1] == fn:
            return None
    return f"cargo does not run {fn} of {file}: declare its module or drop its cfg, or name a test that runs"


def check_row(root, runs, row, cells):
    """Problems of one row."""
    _, where, test, note = cells
    for path in re.findall(r"`([^`]*/[^`]*)`", where):
        if not (root / path).exists():
            yield f"{row}: {path} does not exist: correct where it is implemented"
    if "not yet wired" in note:
        yield f"{row}: is marked as not yet wired: code that is never called is not conformance"
    if where == FOR_PEOPLE:
        if test != NONE or note == NONE:
            yield f"{row}: write {NONE} as its test, and in the last cell who can do it"
        return
    if where != NOT_BUILT and not re.search(r"`[^`]*/[^`]*`", where):
        yield f"{row}: name the file that implements it, or write {NOT_BUILT}"
    if where == NOT_BUILT and test != NONE:
        yield f"{row}: is {NOT_BUILT}, so no test can show it: write {NONE} as its test"
    if where == NOT_BUILT:
        if note == NONE:
            yield f"{row}: give in the last cell the reason why it is {NOT_BUILT}"
        return
    if not NAMED.findall(test) or NAMED.sub("", test).strip(" ,"):
        yield f"{row}: write the tests as `path/to/file.rs:test_fn`, with commas between; what is built has one"
    for file, fn in NAMED.findall(test):
        if problem := in_source(root, file, fn) or in_lists(root, runs, file, fn):
            yield f"{row}: {problem}"


def check(root, text, runs, listed, draft=None, letter="L"):
    """All problems, and a summary line of the table."""
    table, name = TABLES[letter]
    rows, problems = read_table(text, letter)
    if not rows and not problems:
        problems.append(f"{table}: no row starts with '| {letter}-': restore the table")
    for row, cells in rows:
        problems += check_row(root, runs, row, cells)
    problems += drafts.unanswered(listed, letter, [row for row, _ in rows if ROW_ID.fullmatch(row)])
    if draft is not None:
        problems += drafts.differences(listed, letter, draft)
    cells = [c for _, c in rows]
    absent = sum(c[1] == NOT_BUILT for c in cells)
    people = sum(c[1] == FOR_PEOPLE for c in cells)
    return problems, (
        f"conformance to {name}: {len(rows)} rows, {len(rows) - absent - people} tested, "
        f"{sum('Deviation' in c[3] for c in cells)} deviating, {absent} not implemented, {people} {FOR_PEOPLE}"
    )


def ask_cargo():
    """The list, as cargo prints it."""
    command = [*LIST[:2], "--color=never", *LIST[2:]]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if listed.returncode:
        sys.exit(f"{listed.stdout}\nconformance: `{' '.join(LIST)}` failed: make it pass first")
    return listed.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listed", type=Path, help="output of the list commands instead of running them")
    parser.add_argument("--draft", type=Path, action="append", default=[], help="a draft's XML source or text; repeatable")
    args = parser.parse_args()
    runs = read_lists(args.listed.read_text() if args.listed else ask_cargo())
    given = {path.name: path.read_text() for path in args.draft}
    listed = drafts.read_list(drafts.LIST.read_text())
    failed = False
    for path in args.draft:
        if not any(path.name.startswith(name) for _, name in TABLES.values()):
            parser.error(f"{path}: its name is not that of a draft with a table")
    for letter, (table, name) in TABLES.items():
        draft = next((text for file, text in given.items() if file.startswith(name)), None)
        problems, summary = check(ROOT, (ROOT / table).read_text(), runs, listed, draft, letter)
        for problem in problems:
            print(problem, file=sys.stderr)
        failed = failed or bool(problems)
        print(summary)
    sys.exit(failed)


if __name__ == "__main__":
    main()
