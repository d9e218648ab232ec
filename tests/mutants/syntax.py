"""The functions of a C source, as clang parses them, with the place of each node in the text."""
# SPDX-License-Identifier: Apache-2.0
import json
import subprocess


class Source:
    """A C file: its text, and, once parsed, the syntax trees of the functions that it defines."""

    def __init__(self, path, name):
        self.name, self.functions = name, []
        with open(path, "rb") as file:
            self.bytes = file.read()

    def parse(self, command):
        tree = json.loads(subprocess.run(
            command + ["-w", "-fsyntax-only", "-Xclang", "-ast-dump=json"], check=True,
            stdout=subprocess.PIPE).stdout)
        self.functions = [node for node in tree["inner"]
                          if node["kind"] == "FunctionDecl" and self._defines(node)]

    def text(self, begin, end):
        return self.bytes[begin:end].decode()

    def line(self, offset):
        return self.bytes.count(b"\n", 0, offset) + 1

    def _defines(self, node):
        """Clang names the file only where it changes, so the text has to vouch for it."""
        at = node.get("loc", {}).get("offset")
        body = body_of(node)
        if at is None or body is None or "offset" not in body["range"]["end"]:
            return False
        begin, end = body["range"]["begin"].get("offset"), body["range"]["end"]["offset"]
        name = node["name"].encode()
        return (begin is not None and self.bytes[at:at + len(name)] == name
                and self.bytes[begin:begin + 1] == b"{" and self.bytes[end:end + 1] == b"}")

    def place(self, node):
        """(begin, end) in the text; None if the node is not there, or inside of a macro's use."""
        begin, end = (node.get("range", {}).get(side, {}) for side in ("begin", "end"))
        if not begin or not end:
            return None
        first, last = (side.get("expansionLoc", side) for side in (begin, end))
        if "expansionLoc" in begin and "expansionLoc" in end and first["offset"] == last["offset"]:
            return None
        stop = last["offset"] + last["tokLen"]
        return first["offset"], self._past_arguments(stop) if "expansionLoc" in end else stop

    def _past_arguments(self, at):
        """Behind the parentheses of a macro's use, if it has any."""
        if self.bytes[at:at + 1] != b"(":
            return at
        depth = 0
        while True:
            depth += {b"(": 1, b")": -1}.get(self.bytes[at:at + 1], 0)
            at += 1
            if not depth:
                return at

    def macro(self, node):
        """The macro without arguments whose use is all of the node, and its place."""
        first = node.get("range", {}).get("begin", {}).get("expansionLoc")
        last = node.get("range", {}).get("end", {}).get("expansionLoc")
        if not first or not last or first["offset"] != last["offset"] or \
                "isMacroArgExpansion" in first:
            return None
        begin, end = first["offset"], first["offset"] + first["tokLen"]
        if self.bytes[end:end + 1] == b"(":
            return None
        return self.text(begin, end), (begin, end)


def body_of(function):
    for node in function.get("inner", []):
        if node.get("kind") == "CompoundStmt":
            return node
    return None


def inner(node):
    """The children; those that are missing (a `for` without a condition) are empty."""
    return node.get("inner", [])


def is_kind(node, *kinds):
    return node.get("kind") in kinds


def type_of(node):
    return node.get("type", {}).get("qualType", "")


def bare(node):
    """The node without what clang or parentheses put around it."""
    while is_kind(node, "ImplicitCastExpr", "ParenExpr", "ConstantExpr") and inner(node):
        node = inner(node)[0]
    return node


def walk(node):
    yield node
    for child in inner(node):
        yield from walk(child)


def called(node):
    """The name of the function or member that a call calls, or an empty string."""
    if not is_kind(node, "CallExpr"):
        return ""
    callee = bare(inner(node)[0])
    if is_kind(callee, "DeclRefExpr"):
        return callee["referencedDecl"].get("name", "")
    return callee.get("name", "")
