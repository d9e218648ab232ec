# Documents as they stand in the database, beside those in tests/golden: byte for byte as extended
# JSON, but for ids and dates. SPDX-License-Identifier: Apache-2.0
import json
import os

from bson import json_util

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")


def load(name):
    """What each document of a file is called, and its text."""
    with open(os.path.join(FOLDER, name), encoding="utf-8") as stream:
        return {title: text_of(document) for title, document in json.load(stream).items()}


def text_of(document):
    return json.dumps(document, ensure_ascii=False)


def seen(document, **placeholders):
    """A document as a golden file has it: ids and dates give way to placeholders, and so does the
    text `<name>` to what is given for it: seen(lock, process="host:1:2:3") says "<process>"."""
    options = json_util.CANONICAL_JSON_OPTIONS
    plain = json.loads(json_util.dumps(document, json_options=options))
    for name, text in placeholders.items():
        plain = replaced(plain, text, "<%s>" % name)
    return text_of(anonymous(plain))


def anonymous(value):
    if isinstance(value, list):
        return [anonymous(each) for each in value]
    if not isinstance(value, dict):
        return value
    for kind in ("$oid", "$date", "$timestamp"):
        if kind in value:
            return {kind: "<%s>" % kind[1:]}
    return {key: anonymous(each) for key, each in value.items()}


def replaced(value, text, placeholder):
    if isinstance(value, list):
        return [replaced(each, text, placeholder) for each in value]
    if isinstance(value, dict):
        return {key: replaced(each, text, placeholder) for key, each in value.items()}
    return value.replace(text, placeholder) if isinstance(value, str) else value
