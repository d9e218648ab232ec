"""The mistakes that can be made in a function: each is a place in the text, and what stands there
instead.
"""
# SPDX-License-Identifier: Apache-2.0
import hashlib
import re

from syntax import bare, body_of, called, inner, is_kind, type_of, walk

COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
JOINED = {"&&": "||", "||": "&&"}
STATEMENTS = ("CallExpr", "BinaryOperator", "CompoundAssignOperator", "UnaryOperator")

# What only talks: neither its arguments nor the call are mistaken.
TALK = re.compile(r"(^|_)(log|warn|warnf|error_set|error_add|bson_set_error)$")
# What no test can miss: memory that is not given back, and a mutex, whose lack is a matter of luck.
TIDYING = re.compile(r"(^|_)(free|destroy|decref|finalize|sqlite3_reset|done|cleanup|mutex_lock|"
                     r"mutex_unlock|mutex_init|cond_init)$|^(memset|va_end|va_start)$|_free_")
# What holds the time from before a request.
SENT = re.compile(r"^(sent|asked_at|started|born)$")


class Mistake:
    """In [begin, end) of the source stands `becomes` instead; `form` says how it is switched."""

    def __init__(self, source, function, place, becomes, what, form="value"):
        self.file, self.function = source.name, function
        self.begin, self.end = place
        self.becomes, self.what, self.form = becomes, what, form
        self.line = source.line(self.begin)
        self.was = source.text(*place)
        self.id = self.number = None
        self.is_named = False

    def crosses(self, other):
        """Whether they overlap, and neither is inside of the other."""
        first, second = sorted((self, other), key=lambda m: (m.begin, -m.end))
        return second.begin < first.end < second.end


def is_pointer(node):
    return "*" in type_of(node) or "[" in type_of(node)


def short(text):
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."


class Finder:
    """Finds the mistakes of one source."""

    def __init__(self, source):
        self.source, self.found = source, []
        for function in source.functions:
            self.function = function["name"]
            self.clock = self._clock_of(function)
            self._statement(body_of(function))
        name_all(self.found)

    def _add(self, place, becomes, what, form="value"):
        if place:
            self.found.append(Mistake(self.source, self.function, place, becomes, what, form))

    def _text(self, node):
        place = self.source.place(node)
        return self.source.text(*place) if place else None

    # ---- statements ----

    def _statement(self, node):
        if is_kind(node, "CompoundStmt"):
            for child in inner(node):
                self._statement(child)
        elif is_kind(node, "IfStmt"):
            self._condition(inner(node)[0])
            for child in inner(node)[1:]:
                self._statement(child)
        elif is_kind(node, "WhileStmt"):
            self._expression(inner(node)[0])
            self._statement(inner(node)[-1])
        elif is_kind(node, "DoStmt"):
            self._statement(inner(node)[0])
            self._expression(inner(node)[1])
        elif is_kind(node, "ForStmt"):
            self._for(inner(node))
        elif is_kind(node, "CaseStmt", "DefaultStmt", "LabelStmt"):
            self._statement(inner(node)[-1])
        elif is_kind(node, "SwitchStmt"):
            self._expression(inner(node)[0])
            self._statement(inner(node)[-1])
        elif is_kind(node, "DeclStmt"):
            self._declarations(inner(node))
        elif is_kind(node, *STATEMENTS):
            self._dropped(node)
            self._expression(node)
        else:
            self._expression(node)

    def _for(self, parts):
        first, _, condition, _, body = parts
        if is_kind(first, "DeclStmt"):
            self._declarations(inner(first))
        self._expression(condition)
        self._statement(body)

    def _declarations(self, nodes):
        for node in nodes:
            if is_kind(node, "VarDecl") and node.get("storageClass") != "static" and \
                    node.get("init"):
                self._expression(inner(node)[-1])

    def _dropped(self, node):
        name = called(node)
        if name and (TALK.search(name) or TIDYING.search(name)):
            return
        if is_kind(node, "BinaryOperator") and node["opcode"] != "=":
            return
        text = self._text(node)
        if text:
            self._add(self.source.place(node), "(void)0", "dropped: " + short(text), "statement")

    # ---- expressions ----

    def _condition(self, node):
        """What decides: each of its terms may be negated."""
        node_bare = bare(node)
        if is_kind(node_bare, "BinaryOperator") and node_bare["opcode"] in JOINED:
            self._joined(node_bare)
            return
        if not (is_kind(node_bare, "BinaryOperator") and node_bare["opcode"] in COMPARED):
            self._negated(node_bare)
        self._expression(node)

    def _joined(self, node):
        left, right = inner(node)
        texts = [self._text(each) for each in (left, right)]
        if all(texts) and self.source.place(node):
            place, other = self.source.place(node), JOINED[node["opcode"]]
            self._add(place, "(%s) %s (%s)" % (texts[0], other, texts[1]),
                      "%s -> %s: %s" % (node["opcode"], other, short(" ".join(texts))))
            for kept, lost in ((0, 1), (1, 0)):
                self._add(place, "!!(%s)" % texts[kept], "not asked: " + short(texts[lost]))
        for each in (left, right):
            self._condition(each)

    def _negated(self, node):
        text = self._text(node)
        if text and self.source.place(node):
            self._add(self.source.place(node), "!(%s)" % text, "negated: " + short(text), "truth")

    def _expression(self, node):
        if not node or "kind" not in node or is_kind(node, "UnaryExprOrTypeTraitExpr"):
            return
        if TALK.search(called(node)):
            return
        if is_kind(node, "BinaryOperator"):
            self._binary(node)
        elif is_kind(node, "IntegerLiteral"):
            self._number(node)
        elif is_kind(node, "ConditionalOperator"):
            self._either(node)
        elif is_kind(node, "InitListExpr"):
            self._list(node)
        elif re.search(r"_(min|max)$", called(node)):
            self._most(node)
        elif is_kind(node, "ImplicitCastExpr") and node.get("castKind") == "LValueToRValue":
            self._time(node)
        else:
            self._children(node)

    def _children(self, node):
        if is_kind(node, "ImplicitCastExpr") and node.get("castKind") == "NullToPointer":
            return
        for child in inner(node):
            self._expression(child)

    def _binary(self, node):
        operator, (left, right) = node["opcode"], inner(node)
        if operator in JOINED:
            self._joined(node)
            return
        texts = [self._text(each) or self._macro_text(each) for each in (left, right)]
        if all(texts) and operator in COMPARED:
            other = COMPARED[operator]
            self._add(self.source.place(node), "(%s) %s (%s)" % (texts[0], other, texts[1]),
                      "%s -> %s: %s" % (operator, other,
                                        short("%s %s %s" % (texts[0], operator, texts[1]))))
        if all(texts) and operator in "+-" and not any(is_pointer(each) for each in inner(node)):
            self._sum(node, texts)
        self._children(node)

    def _sum(self, node, texts):
        operator = node["opcode"]
        whole = short("%s %s %s" % (texts[0], operator, texts[1]))
        if texts[1].isdigit():
            self._add(self.source.place(node), texts[0], "without %s %s: %s"
                      % (operator, texts[1], whole))
        else:
            other = "-" if operator == "+" else "+"
            self._add(self.source.place(node), "(%s) %s (%s)" % (texts[0], other, texts[1]),
                      "%s -> %s: %s" % (operator, other, whole))

    def _macro_text(self, node):
        macro = self.source.macro(bare(node))
        return macro[0] if macro else None

    def _number(self, node):
        macro = self.source.macro(node)
        if macro and macro[0] in ("true", "false"):
            other = "false" if macro[0] == "true" else "true"
            self._add(macro[1], other, "%s -> %s" % (macro[0], other))
            return
        place = self.source.place(node) if not macro else None
        if place and node.get("value") in ("0", "1"):
            other = "1" if node["value"] == "0" else "0"
            self._add(place, other, "%s -> %s: %s" % (node["value"], other, self._around(place)))

    def _around(self, place):
        """The line that a number stands in, for people."""
        text = self.source.bytes
        begin = text.rfind(b"\n", 0, place[0]) + 1
        return short(text[begin:text.find(b"\n", place[1])].decode())

    def _either(self, node):
        condition, first, second = inner(node)
        texts = [self._text(each) for each in (condition, first, second)]
        if all(texts) and is_kind(bare(condition), "BinaryOperator") and \
                bare(condition)["opcode"] in ("<", ">", "<=", ">="):
            self._add(self.source.place(node),
                      "(%s) ? (%s) : (%s)" % (texts[0], texts[2], texts[1]),
                      "swapped: " + short("%s ? %s : %s" % tuple(texts)))
            self._expression(condition)
        else:
            self._condition(condition)
        self._expression(first)
        self._expression(second)

    def _most(self, node):
        """The smaller of two is taken for either of them."""
        for argument in inner(node)[1:]:
            text = self._text(argument)
            if text:
                self._add(self.source.place(node), text,
                          "%s: always %s" % (called(node), short(text)))
        self._children(node)

    def _list(self, node):
        if (self._text(node) or "").replace(" ", "") == "{0}":
            return
        self._children(node)

    # ---- time ----

    def _clock_of(self, function):
        """How this function can ask the time, if it knows a client."""
        for node in walk(function):
            if is_kind(node, "ParmVarDecl", "VarDecl") and \
                    re.fullmatch(r"(const )?(struct )?hf_client \*(const)?", type_of(node)):
                return "client_now((hf_client *)%s)" % node.get("name", "client")
        body = body_of(function)
        found = re.search(r"\b\w+->client\b", self._text(body) or "")
        return "client_now(%s)" % found.group(0) if found else None

    def _time(self, node):
        """A time from before the request, taken for one from after it."""
        if self.clock and type_of(node).replace("const ", "") == "hf_mono" and \
                SENT.match(self._name_of(node)) and self.source.name.startswith("src/client/"):
            self._add(self.source.place(node), self.clock,
                      "counted from the reply: " + (self._text(node) or ""))
        self._children(node)

    @staticmethod
    def _name_of(node):
        node = bare(node)
        return node.get("name") or node.get("referencedDecl", {}).get("name", "")


def name_all(found):
    """An id that changes neither with the line nor with what is found elsewhere."""
    counts = {}
    for each in found:
        words = "\0".join((each.file, each.function, each.was, each.becomes))
        counts[words] = counts.get(words, 0) + 1
        each.id = hashlib.sha1(("%s\0%d" % (words, counts[words])).encode()).hexdigest()[:8]
