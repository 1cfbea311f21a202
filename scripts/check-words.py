#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The word lint: comments, messages, documents and identifiers use the terms of RFCs, IBTA, Linux and Kubernetes.

    scripts/check-words.py [FILE...]

Without FILE it reads every source and document that git knows. Each hit is one line: file, line, word, what to write instead.
Identifiers are split at underscores and case changes, so `heard_ack` and `HeardAck` are hits for "heard". A phrase of several
words is found across a line break of a comment. The names of the files are read too. docs/glossary.md explains the terms.
"""

import argparse
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".ts", ".tsx", ".css", ".rs", ".c", ".h", ".proto", ".py", ".sh", ".md", ".toml", ".yaml", ".yml", ".json"}
NAMES = {"Makefile"}
# Not read: other people's text, generated lists, and the two files that contain the words in order to find them.
SKIPPED = ("Cargo.lock", "*/Cargo.lock", "web/package-lock.json", "web/dist/*", "LICENSE*", "scripts/check-words.py", "scripts/test_check_words.py")

# What to write instead, and the words that it replaces; a word with a blank is a phrase.
INSTEAD = {
    "send, report, publish; feedback (noun)": "told tell tells telling said say says saying",
    "send, transmit; sent; feedback (noun)": "spoken spoke speak speaks speaking speech",
    "sender, CNP socket": "speaker mouth",
    "receive, received; confirmed": "heard hear hears hearing",
    "unconfirmed": "unheard",
    "apply, enforce, follow": "obey obeys obeyed obeying",
    "heaviest flows; attribute to": "guilty blame blames blamed",
    "notify, report": "complain complains complained complaint",
    "pending only": "vacant",
    "standby, staged": "warming",
    "alternate upstream": "also_from",
    "no node, no receiver, no process: name the thing": "nobody",
    "a node, a process, another user: name the thing": "somebody",
    "which; the node that, the receiver that: name the thing": "whom whoever",
    "poll, sample, read (a queue, flows); inspect; see": "look looks looked looking",
    "continues": "goes_on go_on went_on",
    "is active, already holds": "it_is_so",
    "active, in control": "at_work",
    "has ended": "is_over",
}
# These are identifiers only: in a sentence the two words are ordinary English.
IDENTIFIERS_ONLY = {"also_from"}

# Where a standard or another project chose the words: a path glob, with the reason.
EXEMPT_PATHS = {}
# Exact text that is not a hit wherever it stands, with the reason.
EXEMPT_PHRASES = {}

WORD = re.compile(r"[A-Za-z0-9_]+")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# What may stand between the words of a phrase: blanks, and the line break of a comment or a quotation.
BETWEEN = re.compile(r"[ \t]*(\n[ \t]*(///?!?|//!|\*|#+|>|;)?[ \t]*)?")
LOOK_UP = {"look", "looks", "looked", "looking"}


def phrases():
    """Word sequences in lower case, each with what to write instead."""
    return {tuple(w.split("_")): new for new, words in INSTEAD.items() for w in words.split()}


PHRASES = phrases()
LONGEST = max(len(p) for p in PHRASES)


def parts_of(text):
    """Every word part as (lower case, start, end, token), where `token` counts identifiers."""
    for token, word in enumerate(WORD.finditer(text)):
        for part in PART.finditer(word[0]):
            yield part[0].lower(), word.start() + part.start(), word.start() + part.end(), token


def is_sequence(text, parts):
    """True when the parts stand one after the other: in one identifier, or in one sentence."""
    for (_, _, end, token), (_, start, _, following) in zip(parts, parts[1:]):
        gap = text[end:start]
        if token == following and gap.strip("_"):
            return False
        if token != following and not (gap and BETWEEN.fullmatch(gap)):
            return False
    return True


def blanked(text, exempt):
    """The text with every exempt phrase overwritten, and the phrases that occurred."""
    used = set()
    for phrase in exempt:
        if phrase in text:
            used.add(phrase)
            text = text.replace(phrase, re.sub(r"[^\n]", "\0", phrase))
    return text, used


def hits_in(text):
    """Hits of one text as (line, the words as written, what to write instead)."""
    parts = list(parts_of(text))
    for at, (word, start, _, token) in enumerate(parts):
        for length in range(LONGEST, 0, -1):
            run = parts[at : at + length]
            words = tuple(p[0] for p in run)
            if len(run) < length or words not in PHRASES or not is_sequence(text, run):
                continue
            if "_".join(words) in IDENTIFIERS_ONLY and run[0][3] != run[-1][3]:
                continue
            if word in LOOK_UP and is_look_up(text, parts[at : at + 2]):
                continue
            one = run[0][3] == run[-1][3]
            written = text[start : run[-1][2]] if one else " ".join(text[p[1] : p[2]] for p in run)
            yield text.count("\n", 0, start) + 1, written, PHRASES[words]
            break


def is_look_up(text, parts):
    """A table is looked up, and so is a name."""
    return len(parts) == 2 and parts[1][0] == "up" and is_sequence(text, parts)


def is_read(root, path):
    """True for a source or a document, also a script without a suffix."""
    if any(fnmatch(path, glob) for glob in SKIPPED):
        return False
    file = root / path
    if not file.is_file() or file.is_symlink():
        return False
    if file.suffix in SUFFIXES or file.name in NAMES:
        return True
    with file.open("rb") as opened:
        return not file.suffix and opened.read(2) == b"#!"


def known_to_git(root):
    """Paths of the work tree that git tracks or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True)
    return sorted(set(listed.stdout.decode().split("\0")) - {""})


def check(root, paths, exempt_paths, exempt_phrases):
    """The report of each hit, the files read, and the exemptions that were not needed."""
    problems, files, used = [], 0, set()
    for path in paths:
        if not is_read(root, path):
            continue
        globs = [glob for glob in exempt_paths if fnmatch(path, glob)]
        used.update(globs)
        if globs:
            continue
        files += 1
        try:
            text = (root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            problems.append(f"{path}:1: is not UTF-8: convert it")
            continue
        problems += [f"{path}:1: {word} (in the file's name) -> {new}" for _, word, new in hits_in(path)]
        text, phrases_used = blanked(text, exempt_phrases)
        used |= phrases_used
        problems += [f"{path}:{line}: {word} -> {new}" for line, word, new in hits_in(text)]
    unused = [e for e in [*exempt_paths, *exempt_phrases] if e not in used]
    return problems, files, unused


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="only these, relative to the repository")
    args = parser.parse_args()
    problems, files, unused = check(ROOT, args.files or known_to_git(ROOT), EXEMPT_PATHS, EXEMPT_PHRASES)
    for problem in problems:
        print(problem)
    if not args.files:
        for exemption in unused:
            print(f"scripts/check-words.py: the exemption {exemption!r} matches nothing: remove it")
            problems.append(exemption)
    if not files:
        sys.exit("check-words: no file was read: name files of the repository")
    print(f"check-words: {len(problems)} hits in {files} files")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
