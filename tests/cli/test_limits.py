#!/usr/bin/python3
"""What a number or a length of time may be: the least and the most are taken, one beyond is not."""
# SPDX-License-Identifier: Apache-2.0
import cli

# verb, option; one below, the least, the most, one above (None: there is no such end)
LIMITS = (
    ("run", "--ttl", "999ms", "1s", "1h", "3600001ms"),
    ("run", "-w", None, "0", "876000h", "3153600000001ms"),
    ("run", "-E", "-1", "0", "255", "256"),
    ("run", "--lost-code", "-1", "0", "255", "256"),
    ("run", "--skip-code", "-1", "0", "255", "256"),
    ("run", "--permits", "0", "1", "1073741823", "1073741824"),
    ("run", "--limit", "0", "1", "1073741823", "1073741824"),
    ("run", "--once-per", "999ms", "1s", None, None),
    ("run", "--health-interval", "999ms", "1s", None, None),
    ("run", "--max-hold", "0", "1ms", None, None),
    ("acquire", "--for", "0", "1ms", None, None),
    ("acquire", "--while-pid", "0", "1", None, "2147483648"),
    ("break", "--if-token", "0", "1", "9007199254740992", "9007199254740993"),
    ("watch", "--interval", "49ms", "50ms", "1h", "3600001ms"),
    ("serve", "--max-connections", "0", "1", "100000", "100001"),
    ("serve", "--max-waits", "0", "1", "100000", "100001"),
    ("serve", "--max-followers", "0", "1", "100000", "100001"),
    ("serve", "--timeout", "99ms", "100ms", "10m", "600001ms"),
)

# How long it is in ms.
DURATIONS = {
    "6": 6000, "6s": 6000, "6000ms": 6000, "1m": 60000, "1h": 3600000, "06.0": 6000,
    "5.5": 5500, "0.1m": 6000, "0.5h": 1800000, "5000.4ms": 5001, "5.000000000": 5000,
    "5.123456789": 5124, "4.999999999": 5000, "5.0000000001": 5001, "5.0000000000": 5000,
    "876000h": 3153600000000,
}


class Limits(cli.Case):
    """A value is looked at before the --help behind it."""

    def takes(self, verb, option, value):
        self.check(0, verb, option, value, "--help")

    def refuses(self, verb, option, value):
        err = self.check(65, verb, option, value, "--help").err
        self.assertRegex(err, "^holdfast: %s: " % option)

    def test_the_ends_are_taken(self):
        for verb, option, _, least, most, _ in LIMITS:
            for value in filter(None, (least, most)):
                with self.subTest(verb=verb, option=option, value=value):
                    self.takes(verb, option, value)

    def test_what_is_beyond_them_is_not(self):
        for verb, option, below, _, _, above in LIMITS:
            for value in filter(None, (below, above)):
                with self.subTest(verb=verb, option=option, value=value):
                    self.refuses(verb, option, value)

    def test_what_is_no_number(self):
        for text in ("", "-", " 1", "+1", "1 ", "1x", "0x1", "one"):
            self.refuses("run", "-E", text)

    def test_what_is_no_duration(self):
        for text in ("", "s", "5x", "5 s", "5.", "5.s", "5,5", "5sm", "1e3", "-1", "5S"):
            self.refuses("run", "-w", text)

    def test_how_long_a_duration_is(self):
        """As the complaint says of a grace that is too long."""
        for text, ms in DURATIONS.items():
            err = self.check(65, "--ttl", "10s", "run", "--grace", text, "x", "--", "true").err
            self.assertRegex(err, "^holdfast: --grace: %dms does not fit a ttl of 10000ms" % ms, text)

    def test_how_long_the_grace_may_be(self):
        """Half of the ttl, less a twentieth of it, which is 50 ms at least and 500 ms at most."""
        for ttl, most in (("1s", 450), ("1200ms", 540), ("10s", 4500), ("1h", 1799500)):
            words = ["--ttl", ttl, "run", "x", "--grace"]
            self.check(0, *words, "%dms" % most, "--", "true")
            err = self.check(65, *words, "%dms" % (most + 1), "--", "true").err
            self.assertIn("at most %dms" % most, err)


if __name__ == "__main__":
    cli.main()
