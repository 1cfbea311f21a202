#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages of a program, from what the program itself prints with --help: one page for it and one for each of its commands.

    manual.py PROGRAM SECTION DIRECTORY
"""

import os
import re
import subprocess
import sys
from pathlib import Path

HEADING = re.compile(r"^([A-Z][A-Za-z ]*):$")
ITEM = re.compile(r"^ {2,6}(?=[-<\[a-zA-Z])")
# What a reader knows already.
LEFT_OUT = {"help"}


def help_of(program, path):
    """The long help of a command, as a terminal without colors and settings shows it."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "NO_COLOR": "1", "LANG": "C.UTF-8"}
    done = subprocess.run([program, *path, "--help"], capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{program} {' '.join(path)} --help: {done.stderr.strip()}")
    return done.stdout.replace("=]", "]").splitlines()


def roff(text):
    """Text without meaning for troff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def parse(lines):
    """(description, usage, [(heading, [(item, [line])])], text after the last section)."""
    description, usage, sections, tail = [], [], [], []
    for line in lines:
        heading = HEADING.match(line)
        if line.startswith("Usage:"):
            usage.append(line.removeprefix("Usage:").strip())
        elif heading and usage:
            sections.append((heading[1], []))
        elif not usage:
            description.append(line)
        elif not sections:
            if line.strip():
                usage.append(line.strip())
        elif line and not line.startswith(" "):
            tail.append(line)
        elif tail:
            tail.append(line)
        else:
            items = sections[-1][1]
            # Texts of items begin in column 10 of the long form, and behind the names in the short one.
            if ITEM.match(line):
                name, _, text = line.strip().partition("  ")
                items.append((name, [text.strip()] if text.strip() else []))
            elif items:
                items[-1][1].append(line.strip())
            elif line.strip():
                raise SystemExit(f"help text that is not understood: {line!r}")
    return description, usage, sections, tail


def paragraphs(lines):
    """The lines, with a paragraph break for each empty one."""
    out = []
    for line in lines:
        if not line.strip():
            if out and out[-1] != ".PP":
                out.append(".PP")
        else:
            out.append(roff(line.strip()))
    while out and out[-1] == ".PP":
        out.pop()
    return out


def item(name, lines):
    """An option, argument or command with its text."""
    out = [".TP", f"\\fB{roff(name)}\\fR"]
    text = paragraphs(lines)
    for line in text:
        if line == ".PP":
            out.append(".sp")
        elif line.startswith("\\- "):
            out += [".br", line]
        else:
            out.append(line)
    return out if text else [*out, "\\&"]


def page(program, path, section, version):
    """(text of the page, names of the commands below)."""
    name = "-".join([Path(program).name, *path])
    description, usage, sections, tail = parse(help_of(program, path))
    text = " ".join(description).strip()
    first = re.split(r"(?<=\.)\s", text, maxsplit=1)[0].rstrip(".")
    out = [f'.TH {name.upper()} {section} "" "Canopy {version}" "Canopy"', ".SH NAME", f"{roff(name)} \\- {roff(first)}"]
    out += [".SH SYNOPSIS", ".nf", *(f"\\fB{roff(line)}\\fR" for line in usage), ".fi"]
    out += [".SH DESCRIPTION", *paragraphs(description)]
    below = []
    for heading, items in sections:
        out.append(f".SH {heading.upper()}")
        for entry, lines in items:
            if heading == "Commands":
                if entry in LEFT_OUT:
                    continue
                below.append(entry)
            out += item(entry, lines)
    if tail:
        out += [".SH NOTES", *paragraphs(tail)]
    related = ["-".join([name, entry]) for entry in below] or ["-".join([Path(program).name, *path[:-1]])]
    if path or below:
        out += [".SH SEE ALSO", ",\n".join(f"\\fB{roff(other)}\\fR({section})" for other in related)]
    return "\n".join(out) + "\n", below


def write(program, section, directory):
    """Writes all pages; returns their names."""
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    written, waiting = [], [[]]
    while waiting:
        path = waiting.pop()
        text, below = page(program, path, section, version)
        name = "-".join([Path(program).name, *path])
        (directory / f"{name}.{section}").write_text(text)
        written.append(name)
        waiting += [[*path, command] for command in below]
    return written


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    Path(sys.argv[3]).mkdir(parents=True, exist_ok=True)
    print(len(write(sys.argv[1], sys.argv[2], Path(sys.argv[3]))), "pages")
