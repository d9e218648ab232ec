#!/usr/bin/python3
"""`links.py FOLDER`: each relative link in the pages of a folder, and each heading that one names, is there.
Prints those that are not; and fails if there are any, or no page."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import sys

CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)


def read(path):
    with open(path, encoding="utf-8") as text:
        return text.read()


def anchors(text):
    """What the headings are called in links: "## From locks by hand" is #from-locks-by-hand."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"(?m)^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S))}


def broken(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", read(page))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = os.path.join(os.path.dirname(page), path) if path else page
        if not os.path.exists(target) or anchor and anchor not in anchors(read(target)):
            yield "%s: %s" % (page, link)


def main(folder):
    pages = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names
             if name.endswith(".md")]
    wrong = [each for page in sorted(pages) for each in broken(page)] if pages else [folder + ": no page"]
    for each in wrong:
        print(each)
    return bool(wrong)


sys.exit(main(sys.argv[1]))
