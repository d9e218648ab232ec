"""The examples of docs/python.md run as they stand there."""
# SPDX-License-Identifier: Apache-2.0
import asyncio
import json
import os
import re
import tempfile
import unittest

import holdfast

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "python.md")


class Orders:
    """Stands for a client of protocol `document`, which needs a MongoDB: see test_documents.py."""

    document = "{}"

    def claim(self, _filter, sort):
        self.sort = sort
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Shown(Exception):
    """Ends what would go on for ever."""


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="holdfast-page-")
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        self.done = []
        self.client = holdfast.Client("memory:")
        self.addCleanup(self.client.close)

    def names(self):
        """What the examples use and do not define."""
        def stub(name):
            return lambda *_: self.done.append(name)

        async def write(_):
            self.done.append("write")

        def show(_):
            raise Shown

        names = {name: stub(name) for name in ("read", "encode", "work", "write_report", "send", "pack")}
        return dict(names, holdfast=holdfast, asyncio=asyncio, json=json, client=self.client, write=write,
                    show=show, pieces=[1, 2], orders=Orders())

    def test_examples_run(self):
        with open(PAGE, encoding="utf-8") as stream:
            blocks = re.findall(r"```python\n((?!# ).*?)```", stream.read(), re.S)  # test_recipes.py has files
        self.assertEqual(len(blocks), 6)
        for block in blocks:
            names = self.names()
            try:
                exec(compile(block, PAGE, "exec"), names)
            except Shown:
                pass
            for function in ("report", "daily", "daily"):
                if function in names:
                    names[function]()
        self.assertEqual(self.done, ["write_report", "read", "encode", "write_report", "write_report",
                                     "work", "work", "write", "send", "work", "pack"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
