# SPDX-License-Identifier: Apache-2.0
"""The sections and requirement sentences of an Internet-Draft, as `drafts.txt` lists them.

The drafts are not part of this repository. `drafts.txt` has a digest of the text of each section and of each sentence with a requirement
keyword, so that every machine can check that the tables answer all of them; who has the drafts checks the list itself.
"""

import hashlib
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("drafts.txt")
KEYWORD = re.compile(r"\b(MUST|SHALL|SHOULD|MAY|REQUIRED|RECOMMENDED|OPTIONAL)\b")
BLOCKS = {"t", "li", "dd", "dt", "ol", "ul", "dl", "name", "section", "artwork", "figure", "table"}
# An entity that a DTD elsewhere declares: a reference, or a space. XML's own five are not among them.
ENTITY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)[A-Za-z_]\w*;")
BLANK_ENTITIES = {"&nbsp;", "&zwsp;", "&nbhy;", "&wj;"}
# A section that requires nothing of a program: it needs no row.
INFORMATIVE = "informative"
# The draft that exists as text only, from a printed page: the letters of its headings, as they are misread there.
TEXT_HEADINGS = {
    "introduction": "1", "requirenentslanguage": "1.1", "termnology": "2", "altrafficcharacteristicsandchallenges": "3",
    "srvfordetermnisticpathplacenent": "4", "staticallyprovisionedfabric": "5", "determnisticprobing": "6", "illustration": "7",
    "srvfabricprovisioning": "7.1", "srvbaseddetermnisticpathselection": "7.2",
    "transportcontrolledpathselectionwithcongestionfeedback": "7.3", "benefits": "8", "massivescale": "9", "deployment": "10",
    "depoyment": "10", "securityconsiderations": "11",
}
REQUIREMENTS_LANGUAGE = {"1.1"}


@dataclass(frozen=True)
class Line:
    """A section or a requirement sentence, and the rows that answer it."""

    letter: str
    section: str
    kind: str  # "section" or "sentence"
    digest: str
    rows: tuple = ()

    @property
    def text(self):
        return (self.letter, self.section, self.kind, self.digest)


def digest(text):
    """Of the words of a text; how they are spaced does not matter."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


def sentences(text):
    """The sentences with a requirement keyword; paragraphs are apart by an empty line."""
    for block in text.split("\n\n"):
        for sentence in re.split(r"[.:]\s+(?=[A-Z])", " ".join(block.split())):
            if KEYWORD.search(sentence):
                yield sentence


def sections_of_xml(xml):
    """Number and own text of each section that can contain requirements, in the order of the draft."""

    def text_of(e):
        text = e.text or ""
        for child in e:
            block = child.tag in BLOCKS
            text += ("\n\n" if block else "reference") + (text_of(child) if child.tag != "section" else "")
            text += ("\n\n" if block else "") + (child.tail or "")
        return text

    def walk(section, number):
        if number and section.get("anchor") != "requirements-language":
            yield number, text_of(section)
        for n, child in enumerate(section.findall("section"), 1):
            yield from walk(child, f"{number}.{n}" if number else str(n))

    known = ENTITY.sub(lambda m: " " if m[0] in BLANK_ENTITIES else "", xml)
    middle = ET.fromstring(known).find("middle")
    return walk(middle, "") if middle is not None else iter(())


def sections_of_text(text):
    """The same from plain text: the last line that is a heading's begins its section, so that the table of contents does not."""
    lines = text.splitlines()
    starts = {}
    for at, line in enumerate(lines):
        if number := TEXT_HEADINGS.get(re.sub("[^a-z]", "", line.lower())):
            starts[number] = at
    by_place = sorted((at, number) for number, at in starts.items())
    for (at, number), (end, _) in zip(by_place, [*by_place[1:], (len(lines), None)]):
        if number not in REQUIREMENTS_LANGUAGE:
            # Pages and lists are cut at any place: it is one paragraph.
            yield number, " ".join(lines[at + 1 : end])


def lines_of(letter, draft):
    """The lines of a draft, without rows."""
    sections = sections_of_xml(draft) if "<middle>" in draft else sections_of_text(draft)
    for number, text in sections:
        yield Line(letter, number, "section", digest(text))
        for sentence in sentences(text):
            yield Line(letter, number, "sentence", digest(sentence))


def read_list(text):
    """The lines of `drafts.txt`."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if words and not line.startswith("#"):
            if len(words) < 4 or words[2] not in ("section", "sentence"):
                raise ValueError(f"drafts.txt: {line!r}: write letter, section, kind, digest, and rows")
            found.append(Line(*words[:4], tuple(words[4:])))
    return found


def unanswered(listed, letter, rows):
    """What the rows of a table lack of a draft's list."""
    have = set(rows)
    sections = {re.fullmatch(r"[A-Z]-([\d.]+)-\w+", row)[1] for row in rows}
    mine = [line for line in listed if line.letter == letter]
    if not mine:
        yield f"{letter}: drafts.txt has no line of this draft: restore it"
    for line in mine:
        at = f"{letter}-{line.section}"
        if line.kind == "section" and line.section not in sections and line.rows != (INFORMATIVE,):
            yield f"{at}: no row for this section: add one, or mark it `{INFORMATIVE}` in drafts.txt"
        if line.kind == "section" and line.section in sections and line.rows:
            yield f"{at}: is `{' '.join(line.rows)}` in drafts.txt and has rows: correct the list"
        if line.kind == "sentence" and not line.rows:
            yield f"{at}: no row answers sentence {line.digest}: add it, and name it in drafts.txt"
        if line.kind == "sentence":
            yield from (f"{at}: {row} of drafts.txt is not in the table: add the row" for row in line.rows if row not in have)


def differences(listed, letter, draft):
    """How the list of a draft differs from the draft itself."""
    there, here = [line.text for line in lines_of(letter, draft)], [line.text for line in listed if line.letter == letter]
    if not any(kind == "sentence" for _, _, kind, _ in there):
        yield f"{letter}: no requirement sentence found in the draft: give its XML source, or its text"
    yield from (f"{' '.join(t)}: is in the draft, not in drafts.txt: add the line" for t in there if t not in here)
    yield from (f"{' '.join(t)}: is in drafts.txt, not in the draft: remove the line" for t in here if t not in there)
