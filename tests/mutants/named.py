"""Mistakes that were written down by hand: tests/planted/planted.toml; and those that change
nothing: equivalent.toml.
"""
# SPDX-License-Identifier: Apache-2.0
import itertools
import os
import re
import tomllib

from mistakes import Mistake

HERE = os.path.dirname(os.path.abspath(__file__))
PLANTED = os.path.join(os.path.dirname(HERE), "planted", "planted.toml")


class NotFound(Exception):
    """A list says something that is not so: a text is not in its file, or stands there twice."""


def read(path, key):
    with open(path, "rb") as file:
        return tomllib.load(file).get(key, [])


def load():
    """The edits of the list; a bug that stands there twice has two."""
    edits = read(PLANTED, "bug")
    for each in edits:
        each["found"] = False
    return edits


def bugs(edits):
    """name -> the parts that catch it; the first edit of a bug says that, and what is wrong."""
    found = {}
    for edit in edits:
        is_first = edit["name"] not in found
        for key in ("what", "caught_by"):
            if (key in edit) != is_first:
                raise NotFound("%s: its first edit, and no other, has `%s`" % (edit["name"], key))
        found.setdefault(edit["name"], edit.get("caught_by"))
    return found


def place_of(edit, source):
    """Where the text stands; it may be broken into lines elsewhere."""
    pattern = r"\s+".join(re.escape(word) for word in edit["text"].split())
    places = [m.span() for m in re.finditer(pattern.encode(), source.bytes)]
    if len(places) != 1:
        raise NotFound("%s: its text stands %d times in %s:\n%s"
                       % (edit["name"], len(places), edit["file"], edit["text"]))
    return places[0]


def form_of(edit):
    if "before" in edit:
        return "before"
    return "code" if edit["text"].rstrip()[-1:] in ";}" else "value"


def in_source(edits, source):
    """The mistakes of the list that are made in that source."""
    found = []
    for edit in edits:
        if edit["file"] != source.name:
            continue
        edit["found"] = True
        form = form_of(edit)
        becomes = edit["before" if form == "before" else "replacement"].strip()
        mistake = Mistake(source, "", place_of(edit, source), becomes, edit["name"], form)
        mistake.id, mistake.is_named = edit["name"], True
        found.append(mistake)
    for one, other in itertools.combinations(found, 2):
        if one.crosses(other):
            raise NotFound("%s and %s: their texts overlap in %s" % (one.id, other.id, one.file))
    return found


def check_all_found(edits):
    for edit in edits:
        if not edit["found"]:
            raise NotFound("%s: no file is called %s" % (edit["name"], edit["file"]))


def share_numbers(all_mistakes):
    """Edits of one name are one mistake: they are switched on together."""
    numbers = {}
    for each in all_mistakes:
        if each.is_named:
            each.number = numbers.setdefault(each.id, each.number)


def equivalents(all_mistakes):
    """id -> why it changes nothing; complains of those that are none any more."""
    known = {(m.id, m.file) for m in all_mistakes}
    listed = read(os.path.join(HERE, "equivalent.toml"), "equivalent")
    gone = ["%(id)s (%(file)s: %(what)s)" % each for each in listed
            if (each["id"], each["file"]) not in known]
    if gone:
        raise NotFound("equivalent.toml: no mistakes any more: " + ", ".join(gone))
    return {each["id"]: each["why"] for each in listed}
