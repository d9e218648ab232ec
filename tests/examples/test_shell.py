"""examples/shell and examples/cron: run as they stand, but for the commands that they start."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import tarfile
import unittest

import bed


class Backup(bed.Case):
    def setUp(self):
        super().setUp()
        self.script = os.path.join(bed.EXAMPLES, "shell", "backup.sh")
        for folder in "from", "to":
            os.mkdir(self.path(folder))
        with open(self.path("from/file"), "w") as out:
            out.write("what is kept\n")
        self.words = self.script, self.path("from"), self.path("to")

    def test_packs_under_its_lock(self):
        packed = self.check(0, *self.words).strip()
        token = self.show("backup")["token"]
        self.assertEqual(packed, self.path("to/backup-%d.tar.gz" % token))
        with tarfile.open(packed) as archive:
            self.assertIn("./file", archive.getnames())

    def test_in_its_own_folder(self):
        folder, name = os.path.split(self.script)
        self.check(0, "sh", name, *self.words[1:], cwd=folder)

    def test_one_at_a_time(self):
        holder = self.hold("backup")
        backups = [self.start(*self.words) for _ in range(2)]
        self.await_queue("backup", 2)
        self.assertEqual(os.listdir(self.path("to")), [])
        holder.stdin.close()
        packed = {process.communicate(timeout=bed.PATIENCE)[0] for process in backups}
        self.assertEqual([process.returncode for process in backups], [0, 0])
        self.assertEqual(len(packed), 2)

    def test_a_failure_is_passed_on(self):
        self.check(2, self.script, self.path("not there"), self.path("to"))
        self.assertEqual(self.show("backup")["last"]["exit_status"], 2)


class Cron(bed.Case):
    """Each job of the file, by cron's rules: assignments, then five fields, a user, a command line
    for /bin/sh in which % would mean a new line."""
    JOB = re.compile(r"(?P<when>(?:[\d*/,-]+\s+){5})(?P<user>[a-z]+)\s+(?P<command>[^%]+)$")
    LEAST = (0, 0, 1, 1, 0)
    MOST = (59, 23, 31, 12, 7)

    def setUp(self):
        super().setUp()
        with open(os.path.join(bed.EXAMPLES, "cron", "holdfast-jobs")) as text:
            lines = [line.strip() for line in text if line.strip() and line[0] != "#"]
        self.settings = dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))
        self.jobs = [self.JOB.match(line) for line in lines[len(self.settings):]]

    def run_job(self, name):
        """What the job that starts this command printed, with the settings of the test."""
        command = next(j["command"] for j in self.jobs if j["command"].endswith(" " + name))
        return self.check(0, "sh", "-c", command)

    def test_every_line_is_understood(self):
        self.assertEqual(set(self.settings), {"PATH", "HOLDFAST_STORE"})
        self.assertEqual(len(self.jobs), 3)
        for job in self.jobs:
            for field, least, most in zip(job["when"].split(), self.LEAST, self.MOST):
                for number in re.findall(r"\d+", field):
                    self.assertTrue(least <= int(number) <= most, job.group())

    def test_jobs_run(self):
        for name in "sync-files", "make-report", "import-files":
            self.stub(name)
            self.assertIn("ran\n", self.run_job(name), name)

    def test_one_that_is_at_work_elsewhere_is_no_failure(self):
        self.stub("sync-files")
        self.hold("sync")
        self.assertEqual(self.run_job("sync-files"), "")

    def test_the_report_is_made_once_a_day(self):
        self.stub("make-report")
        self.assertIn("ran\n", self.run_job("make-report"))
        self.assertNotIn("ran\n", self.run_job("make-report"))


unittest.main(verbosity=2)
