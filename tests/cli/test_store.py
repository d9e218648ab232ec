#!/usr/bin/python3
"""The command and a store that is not as it should be: SQLite files of all sorts, no server."""
# SPDX-License-Identifier: Apache-2.0
import os
import socket
import sqlite3
import subprocess

import cli
from idle import boot_ns, idle_seconds

NOBODY = NOGROUP = 65534


def as_member():
    """In the child: another user, of the group only."""
    os.setgroups([])
    os.setgid(NOGROUP)
    os.setuid(NOBODY)


class SqliteFile(cli.Case):
    def setUp(self):
        super().setUp()
        self.file = self.path("locks.db")

    def refused(self, status, pattern, **more):
        """A request for a lock is told so, and nothing that was there is changed."""
        before = self.content()
        result = self.check(status, "run", "x", "--", "touch", self.path("ran"), **more)
        self.assertRegex(result.err, "^holdfast: .*" + pattern)
        self.assertEqual(result.err.count("\n"), 1, result.err)
        self.assertFalse(os.path.exists(self.path("ran")))
        self.assertEqual(self.content(), before)

    def content(self):
        if not os.path.isfile(self.file):
            return None
        with open(self.file, "rb") as file:
            return file.read()

    def as_other_user(self):
        """For root, whom no mode stops: the command runs as nobody."""
        os.chmod(self.folder, 0o755)
        return cli.as_user(lambda: os.setuid(NOBODY)) if os.getuid() == 0 else {}

    def test_not_a_database(self):
        with open(self.file, "w") as file:
            file.write("these are no locks\n" * 100)
        self.refused(69, "is not an SQLite database")

    def test_a_database_of_another_program(self):
        with sqlite3.connect(self.file) as db:
            db.execute("CREATE TABLE locks (mine)")
        self.refused(69, "another program")

    def test_a_newer_schema(self):
        self.check(0, "run", "x", "--", "true")
        db = sqlite3.connect(self.file)
        db.execute("PRAGMA user_version = 1000")
        db.close()
        self.refused(69, "schema 1000.*newer")
        self.assertIn("schema 1000", self.check(69, "list").err)

    def test_read_only(self):
        self.check(0, "run", "x", "--", "true")
        more = self.as_other_user()
        for name in os.listdir(self.folder):
            os.chmod(self.path(name), 0o444)
        os.chmod(self.folder, 0o555)
        self.refused(69, "read-only", **more)
        os.chmod(self.folder, 0o755)

    def test_a_folder_that_a_group_shares(self):
        """What one of them makes, the others can use, whatever the umask."""
        more = {}
        if os.getuid() == 0:
            os.chown(self.folder, -1, NOGROUP)
            more = cli.as_user(as_member)
        os.chmod(self.folder, 0o2770)
        ours = self.check(0, "run", "x", "--", "sh", "-c", "stat -c '%a %n' *", cwd=self.folder,
                          preexec_fn=lambda: os.umask(0o077)).out.splitlines()
        self.assertEqual(len(ours), 5, ours)  # database, log, its index, kernel locks, the command's pipe
        for each in ours:
            self.assertRegex(each, "^66[04] ")
        self.check(0, "run", "x", "--", "true", **more)

    def test_not_readable(self):
        self.check(0, "run", "x", "--", "true")
        more = self.as_other_user()
        for name in os.listdir(self.folder):
            os.chmod(self.path(name), 0)
        result = self.check(69, "list", **more)
        self.assertRegex(result.err, "^holdfast: .*locks.db")

    def test_no_such_folder(self):
        self.check(69, "--store", "sqlite:" + self.path("none/locks.db"), "list")

    def test_a_folder(self):
        self.check(69, "--store", "sqlite:" + self.folder, "list")

    def test_a_disk_that_is_full(self):
        disk = self.path("disk")
        os.mkdir(disk)
        script = ('mount -t tmpfs -o size=256k none "$0" && { "$@" run before -- true && '
                  'cat /dev/zero > "$0/fill"; "$@" run x -- touch "$0/../ran"; code=$?; '
                  'rm "$0/fill"; "$@" run after -- true && exit $code; }')
        unshare = ["unshare", "--mount"] + ["--map-root-user"] * (os.getuid() != 0)
        result = subprocess.run(
            [*unshare, "sh", "-c", script, disk, cli.BIN, "--store", "sqlite:%s/locks.db" % disk],
            env=self.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=cli.PATIENCE)
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertRegex(result.stderr, rb"(?m)^holdfast: .*no space left")
        self.assertFalse(os.path.exists(self.path("ran")))

    def mounted_alone(self, *words):
        """In a mount namespace of its own, with the database mounted at another place."""
        other = self.path("other")
        os.mkdir(other)
        script = 'touch "$0/locks.db" && mount --bind "$1" "$0/locks.db" && shift && exec "$@"'
        unshare = ["unshare", "--mount"] + ["--map-root-user"] * (os.getuid() != 0)
        if subprocess.run([*unshare, "mount", "--bind", other, other],
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no right to mount")
        return subprocess.run([*unshare, "sh", "-c", script, other, self.file, cli.BIN,
                               "--store", "sqlite:%s/locks.db" % other, *words], text=True,
                              env=self.env, stderr=subprocess.PIPE, timeout=cli.PATIENCE)

    def test_a_file_that_is_mounted_alone(self):
        """As into a container, which then does not see its log and its kernel locks."""
        self.hold("x")
        result = self.mounted_alone("run", "-n", "x", "--", "true")
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertRegex(result.stderr, "mounted alone.*mount the folder")

    def test_a_file_with_two_names(self):
        self.hold("x")
        os.link(self.file, self.path("other.db"))
        result = self.check(69, "--store", "sqlite:" + self.path("other.db"),
                            "run", "-n", "x", "--", "touch", self.path("ran"))
        self.assertRegex(result.err, "2 names.*remove all but one")
        self.assertNotIn("DELETE", result.err)
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_what_others_put_in_a_shared_folder(self):
        """A link or a pipe in the place of any of its files is refused at once."""
        key = self.path("key")
        with open(key, "w") as file:
            file.write("secret")
        os.chmod(key, 0o600)
        os.mkdir(self.path("shared"))
        os.chmod(self.path("shared"), 0o2770)
        self.file = self.path("shared/locks.db")
        store = "sqlite:" + self.file
        for suffix in ("", "-wal", "-shm", "-alive"):
            for put in (lambda at: os.symlink(key, at), lambda at: os.symlink(self.path("none"), at),
                        lambda at: os.link(key, at), os.mkfifo):
                put(self.file + suffix)
                for words in (["run", "-n", "x", "--", "true"], ["list"]):
                    result = self.check(69, "--store", store, *words)
                    self.assertIn(self.file + suffix, result.err)
                os.unlink(self.file + suffix)
        self.assertEqual(os.stat(key).st_mode & 0o7777, 0o600)
        self.assertFalse(os.path.exists(self.path("none")))
        with open(key) as file:
            self.assertEqual(file.read(), "secret")

    def test_the_record_of_a_lock_is_damaged(self):
        self.check(0, "run", "x", "--", "true")
        db = sqlite3.connect(self.file)
        [table] = [name for name, sql in db.execute("SELECT name, sql FROM sqlite_master "
                                                    "WHERE type = 'table'") if "record" in sql]
        column = [row[1] for row in db.execute("PRAGMA table_info(%s)" % table)
                  if row[2].upper() in ("BLOB", "TEXT") and row[1] != "name"][0]
        db.execute("UPDATE %s SET %s = x'01'" % (table, column))
        db.commit()
        db.close()
        self.assertRegex(self.check(65, "run", "x", "--", "true").err, "^holdfast: .*x in ")


def make_pem(folder, name, password=None):
    """Certificate and key in one file, and each in one of its own."""
    path = os.path.join(folder, name)
    hidden = ["-passout", "pass:" + password] if password else ["-nodes"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-days", "2", "-subj", "/CN=" + name, "-keyout", path + ".key", "-out", path + ".crt"]
                   + hidden, check=True, capture_output=True)
    with open(path, "w") as out:
        for part in (".crt", ".key"):
            with open(path + part) as text:
                out.write(text.read())
    return path


class FilesOfTls(cli.Case):
    """They do not mend themselves, so nobody waits for them, and nothing is asked at the terminal."""

    def refused(self, options, pattern):
        began = boot_ns()
        result = self.check(65, "--store", "mongodb://127.0.0.1:1/app?" + options, "run", "-w", "1m", "x", "--",
                            "true")
        self.assertRegex(result.err, pattern)
        self.assertNotIn("secret", result.err)
        self.assertNotIn("Enter PEM", result.err + result.out)
        self.assertLess(idle_seconds(began), 5)

    def file(self, name, text):
        with open(self.path(name), "w") as out:
            out.write(text)
        return self.path(name)

    def test_an_authority_that_cannot_be_used(self):
        self.refused("tlsCAFile=" + self.path("none"), "tlsCAFile: .*/none cannot be used: No such file")
        self.refused("tlsCAFile=" + self.folder, "cannot be used: it is no regular file")
        for text in ("", "junk", "-----BEGIN CERTIFICATE-----\njunk\n-----END CERTIFICATE-----\n"):
            self.refused("tlsCAFile=" + self.file("ca", text), "/ca cannot be used: it has no certificate")

    def test_a_key_that_cannot_be_used(self):
        key, other = "tlsCertificateKeyFile=", make_pem(self.folder, "other")
        pem, hidden = make_pem(self.folder, "one"), make_pem(self.folder, "two", "right-secret")
        self.refused(key + self.path("none"), "tlsCertificateKeyFile: .*/none cannot be used: No such file")
        self.refused(key + pem + ".crt", "it has no private key")
        self.refused(key + pem + ".key", "it has no certificate")
        self.refused(key + hidden, "its key has a password: give it as tlsCertificateKeyFilePassword")
        self.refused(key + hidden + "&tlsCertificateKeyFilePassword=wrong-secret",
                     "/two cannot be used: is tlsCertificateKeyFilePassword right")
        with open(pem + ".crt") as crt, open(other + ".key") as alien:
            mixed = self.file("mixed", crt.read() + alien.read())
        self.refused(key + mixed, "its key does not belong to its certificate")

    def test_what_can_be_used_is(self):
        pem, hidden = make_pem(self.folder, "one"), make_pem(self.folder, "two", "right-secret")
        for options in ("tlsCAFile=%s.crt&tlsCertificateKeyFile=%s" % (pem, pem),
                        "tlsCertificateKeyFile=%s&tlsCertificateKeyFilePassword=right-secret" % hidden):
            uri = "mongodb://127.0.0.1:1/app?serverSelectionTimeoutMS=100&" + options
            self.assertIn("connecting failed: 127.0.0.1:1", self.check(69, "--store", uri, "list").err)


class NoServer(cli.Case):
    def closed_port(self):
        with socket.socket() as door:
            door.bind(("127.0.0.1", 0))
            return door.getsockname()[1]

    def test_it_is_said_within_the_patience_that_the_uri_gives(self):
        uri = "mongodb://127.0.0.1:%d/?serverSelectionTimeoutMS=500" % self.closed_port()
        for words in (["run", "x", "--", "true"], ["list"], ["doctor"], ["sessions"]):
            begun = boot_ns()
            result = self.check(69, "--store", uri, *words)
            self.assertLess(idle_seconds(begun), 10)
            self.assertRegex(result.err, "^holdfast: .*127.0.0.1")

    def test_what_may_not_wait_is_told_so_soon(self):
        uri = "mongodb://127.0.0.1:%d/" % self.closed_port()
        for words in (["run", "-n", "x", "--", "true"], ["acquire", "-n", "x", "--for", "1h"]):
            begun = boot_ns()
            result = self.check(69, "-q", "--store", uri, *words)
            self.assertLess(idle_seconds(begun), 5)  # patience with one that waits is 30 s
            self.assertRegex(result.err, "^holdfast: .*127.0.0.1")

    def test_what_fails_prints_its_complaint_only(self):
        uri = "mongodb://127.0.0.1:%d/?serverSelectionTimeoutMS=100" % self.closed_port()
        lease = "0" * 32 + "-x"
        for words in (["list"], ["list", "--names"], ["show", "x"], ["sessions"], ["doctor"],
                      ["watch", "--json"], ["elect", "--print", "x"], ["renew", lease],
                      ["break", "x", "--reason", "r"], ["release", lease], ["run", "x", "--", "true"]):
            for more in ([], ["--json"] * ("--names" not in words)):
                result = self.check(69, "--store", uri, *more, *words)
                self.assertRegex(result.err, r"^holdfast: .*127\.0\.0\.1.*\n$")
                self.assertEqual((result.out, result.err.count("\n")), ("", 1), words)

    def test_a_signal_ends_the_waiting_for_it(self):
        door = socket.socket()  # a server that takes the call and says nothing
        self.addCleanup(door.close)
        door.bind(("127.0.0.1", 0))
        door.listen()
        door.settimeout(cli.PATIENCE)
        run = self.start("--store", "mongodb://127.0.0.1:%d/" % door.getsockname()[1],
                         "run", "x", "--", "true")
        self.addCleanup(door.accept()[0].close)
        run.signal(15)
        self.assertEqual(run.status(), 143)

    def test_passwords_are_not_shown(self):
        for uri in ("mongodb://me:secret@127.0.0.1:%d/?serverSelectionTimeoutMS=200"
                    % self.closed_port(), "mongodb://me:secret@/", "ftp://me:secret@host/"):
            result = self.run_it("--store", uri, "list")
            self.assertIn(result.returncode, (65, 69))
            self.assertNotIn("secret", result.err)


class Dumps(cli.Case):
    """A core dump has the password in it. The kernel gives what belongs to a process without one to root."""

    def owner(self, store):
        os.chmod(self.folder, 0o777)
        more = {"preexec_fn": as_member} if os.getuid() == 0 else {}
        running = self.start("--store", store, "run", "x", "--", "true", **more)
        running.err.expect("(ask|try)ing again")
        return os.stat("/proc/%d/environ" % running.pid).st_uid

    def test_with_a_password_there_is_none(self):
        self.assertEqual(self.owner("mongodb://u:secret@127.0.0.1:1/x"), 0)
        self.assertEqual(self.owner("mongodb://127.0.0.1:1/x"), os.getuid() or NOBODY)


if __name__ == "__main__":
    cli.main()
