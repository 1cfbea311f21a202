#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds circles of files in each crate: files that name each other by `crate::` or `super::` paths, directly or through others.

A module and the modules below it may name each other: a file and its submodules are one idea. Test modules are left out. A circle that
is wanted has, in one of its files, a comment that starts with `// Circle:` and justifies it.

Usage: scripts/check-circles.py [CRATE...]    directories of crates; all of the workspace if none is given
"""

import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
PATH = re.compile(r"\b(crate|super(?:::super)*)((?:::\w+)+|::\{)")
LIST = re.compile(r"\b(crate|super(?:::super)*)::\{([^;]*?)\}", re.S)


def modules(src):
    """Module path (a tuple) -> file, of every file below src that is not a test."""
    found = {}
    for path in sorted(src.rglob("*.rs")):
        parts = path.relative_to(src).with_suffix("").parts
        if "tests" in parts or "bin" in parts or parts[-1] in ("tests", "testbed", "main"):
            continue
        found[() if parts == ("lib",) else parts[:-1] if parts[-1] == "mod" else parts] = path
    return found


def target(all_modules, path):
    """The longest prefix of a path that is a file other than the crate's root."""
    for end in range(len(path), 0, -1):
        if path[:end] in all_modules:
            return path[:end]
    return None


def names(module, text):
    """Paths that a file names, as tuples from the crate's root."""
    text = text.split("#[cfg(test)]\nmod tests {")[0]
    text = re.sub(r"(?m)^\s*//.*$", "", text)
    for prefix, rest in PATH.findall(text):
        base = () if prefix == "crate" else module[: len(module) - prefix.count("super")]
        yield base + tuple(part for part in rest.split("::") if part and part != "{")
    for prefix, inside in LIST.findall(text):
        base = () if prefix == "crate" else module[: len(module) - prefix.count("super")]
        for item in re.split(r",(?![^{]*\})", inside):
            yield base + tuple(re.findall(r"\w+", item.split("{")[0]))


def family(a, b):
    """Whether one module is inside the other."""
    return a[: len(b)] == b or b[: len(a)] == a


def circles(graph):
    """Strongly connected components of more than one node (Tarjan)."""
    index, low, stack, on, out = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on.add(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            part = []
            while True:
                part.append(stack.pop())
                on.discard(part[-1])
                if part[-1] == node:
                    break
            if len(part) > 1:
                out.append(sorted(part))

    for node in graph:
        if node not in index:
            visit(node)
    return out


def check(crate):
    """Circles of a crate that no comment justifies: lists of (file, files that it names)."""
    all_modules = modules(crate / "src")
    texts = {module: path.read_text() for module, path in all_modules.items()}
    graph = {
        module: sorted({t for n in names(module, text) if (t := target(all_modules, n)) and not family(t, module)})
        for module, text in texts.items()
        if module
    }
    for circle in circles(graph):
        if not any(re.search(r"(?m)^\s*//[/!]? Circle: \w", texts[m]) for m in circle):
            yield [(all_modules[m], [all_modules[t] for t in graph[m] if t in circle]) for m in circle]


def main():
    """Prints every circle; exit code 1 if there is one."""
    wanted = [pathlib.Path(c).resolve() for c in sys.argv[1:]]
    crates = wanted or sorted(p.parent for p in TOP.rglob("Cargo.toml") if "target" not in p.parts and (p.parent / "src").is_dir())
    found = 0
    for crate in crates:
        for circle in check(crate):
            found += 1
            print(f"circle {found}:")
            for path, others in circle:
                print(f"  {path.relative_to(TOP)} -> {', '.join(o.name for o in others)}")
    print(f"check-circles: {found} circles in {len(crates)} crates")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
