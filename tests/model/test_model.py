#!/usr/bin/python3
"""The design as models (*.pml), searched through by spin: what must hold holds in every run that they
have, and each variant in which a rule is broken fails for the property it breaks.
"""
# SPDX-License-Identifier: Apache-2.0
#
#     test_model.py [-k WORD]... [--keep FOLDER]
#
# Prints a line for each search; in the end `N passed, N failed`. With --keep, a search that failed, or
# found what it should, leaves its model, its trail and what happened on the way (`story`) in FOLDER.
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
MEMORY_MB = 1200
PATIENCE = 280  # seconds, for one search on a busy machine; alone it takes a few
DEPTH = 100000

KEEP = None  # a folder

# Enough, small searches: who holds stays until it is lost, so time is what matters; or one beat and
# one failover, for what leaves and late enters do.
HOLDS = ("HOLDS_ON", "BEATS=3")
LATE = ("LOSSES=1",)


def limit_memory():
    size = (MEMORY_MB + 200) << 20
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def call(folder, *command):
    try:
        done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=PATIENCE, preexec_fn=limit_memory,
                              check=False)
    except FileNotFoundError:
        raise AssertionError("%s is missing: tools/install-deps test" % command[0]) from None
    if done.returncode:
        raise AssertionError("%s: %s" % (" ".join(command), done.stdout))
    return done.stdout


class Search:
    """One search through all runs of the model with these macros. Progress is an LTL formula, all else
    are assertions."""

    def __init__(self, model, folder, macros, progress, fairness, *compiler):
        self.name = " ".join(macros) + (" (progress)" if progress else "")
        defines = ["-D" + macro for macro in macros]
        shutil.copy(os.path.join(FOLDER, model), folder)
        call(folder, "spin", "-a", *defines, model)
        began = processor_seconds()
        kind = ["-DNFAIR=%d" % fairness] if progress else ["-DSAFETY", "-DNOCLAIM"]
        call(folder, *compiler, "-w", "-DMEMLIM=%d" % MEMORY_MB, *kind, "-o", "pan", "pan.c")
        built = processor_seconds()
        self.said = call(folder, "./pan", "-m%d" % DEPTH, "-w22", "-n", *(["-a", "-f"] * progress))
        self.seconds = processor_seconds() - built
        self.states = int(self.number(r"(\d+) states, stored"))
        self.errors = int(self.number(r"errors: (\d+)"))
        self.violated = self.find(r"pan:1: (assertion violated .*?|acceptance cycle) \(at")
        if self.errors:
            self.story = call(folder, "spin", "-t", *defines, model)
        print("%-64s %8d states %5.1f + %4.1f s %5.0f MB  %s" %
              (self.name, self.states, built - began, self.seconds, float(self.number(r"([\d.]+)\s+total actual")),
               self.violated or "holds"), flush=True)

    def find(self, pattern):
        found = re.search(pattern, self.said)
        return found.group(1) if found else None

    def number(self, pattern):
        found = self.find(pattern)
        if not found:
            raise AssertionError("%s: unexpected output: %s" % (self.name, self.said))
        return found

    def is_whole(self):
        """Nothing was left out: no bound was met, and no state was taken for another."""
        cut = r"error:|not completed|too small|out of memory|MEMLIM|Bit statespace|Hash-Compact"
        return "Full statespace search" in self.said and not re.search(cut, self.said)


class Case(unittest.TestCase):
    model = "holdfast.pml"
    story = r"session \d: "
    fairness = 2  # of pan: 3 for more than six processes

    def search(self, macros, progress, *compiler):
        with tempfile.TemporaryDirectory(prefix="holdfast-model-") as folder:
            search = Search(self.model, folder, macros, progress, self.fairness, *compiler)
            if KEEP and search.errors:
                with open(os.path.join(folder, "story"), "w", encoding="utf-8") as file:
                    file.write(search.story)
                shutil.copytree(folder, os.path.join(KEEP, self.id().split(".")[-1]),
                                dirs_exist_ok=True)
        return search

    def holds(self, *macros, progress=False):
        # optimizing takes longer than it spares, but for the largest
        is_large = "FAILOVERS=2" in macros or self.model != "holdfast.pml"
        compiler = ["gcc", "-Og"] if is_large else ["clang", "-O0"]
        search = self.search(macros, progress, *compiler)
        if search.errors:
            self.fail("%s is violated:\n%s" % (search.violated, search.story))
        self.assertTrue(search.is_whole(), search.said)
        self.assertGreater(search.states, 1000, "nothing happens in it")

    def breaks(self, what, *macros, progress=False, backward=False):
        # over before an optimizer would be; in the opposite order sooner, or later
        order = ["-DREVERSE", "-DT_REVERSE"] if backward else []
        search = self.search(macros, progress, "clang", "-O0", *order)
        self.assertTrue(search.errors, search.name + " was not found out")
        self.assertIn(what, search.violated or search.said)
        self.assertRegex(search.story, self.story)

    def two_believe(self, *macros, backward=False):
        self.breaks("!(two_believe)", *macros, backward=backward)

    def token_is_no_higher(self, *macros):
        self.breaks("!(token_is_no_higher)", *macros)

    def waits_for_ever(self, *macros):
        self.breaks("acceptance cycle", "TIMELESS", "FAILOVERS=0", *macros, progress=True)

    def ticket_is_unknown(self, *macros):
        self.breaks("!(a_ticket_is_unknown)", *macros)


class Sound(Case):
    """In all of these: never two believe, tokens rise, what was left stays out."""

    def test_drifting_clocks_and_a_failover_never_make_two_believe(self):
        self.holds(*HOLDS)

    def test_two_failovers_never_make_two_believe(self):
        self.holds("HOLDS_ON", "BEATS=2", "FAILOVERS=2")

    def test_tokens_rise_with_a_ticket_after_another(self):
        self.holds("TICKETS=2")

    def test_late_enters_and_lost_answers_never_make_two_believe(self):
        self.holds("HOLDS_ON", *LATE)

    def test_what_was_left_stays_out_in_spite_of_late_enters(self):
        self.holds("TIMELESS", *LATE)

    def test_no_two_believe_when_each_may_be_lost_and_the_dead_are_swept(self):
        self.holds("TIMELESS", "FRAIL", "SWEEP")

    def test_no_two_of_three_believe(self):
        self.holds("TIMELESS", "SESSIONS=3", "HOLDS_ON")

    def test_who_waits_and_stays_gets_the_lock_after_a_failover(self):
        self.holds("TIMELESS", progress=True)

    def test_who_waits_and_stays_gets_the_lock_in_spite_of_late_enters(self):
        self.holds("TIMELESS", *LATE, "FAILOVERS=0", progress=True)

    def test_a_waiter_follows_a_holder_after_two_failovers(self):
        self.breaks("!(is_followed)", "REACH", "HOLDS_ON", "BEATS=2", "FAILOVERS=2")


class Broken(Case):
    """Each of these must be found out, or the searches above show nothing."""

    def test_clocks_without_allowance(self):
        self.two_believe(*HOLDS, "NO_DRIFT_ALLOWANCE")

    def test_clocks_that_drift_beyond_the_allowance(self):
        self.two_believe(*HOLDS, "DRIFTS_BEYOND_ALLOWANCE")

    def test_lease_from_the_reply(self):
        self.two_believe(*HOLDS, "LEASE_FROM_REPLY")

    def test_belief_after_the_lease(self):
        self.two_believe(*HOLDS, "BELIEVES_AFTER_LEASE")

    def test_mark_of_any_beat(self):
        self.two_believe("HOLDS_ON", "BEATS=2", "MARK_ANY_BEAT", backward=True)

    def test_tickets_out_before_the_mark_is_acknowledged(self):
        self.two_believe("HOLDS_ON", "BEATS=2", "TICKETS_BEFORE_MARK", backward=True)

    def test_local_looks(self):
        self.two_believe(*HOLDS, "LOCAL_LOOKS")

    def test_looks_that_are_not_causal(self):
        self.two_believe(*HOLDS, "LOOKS_NOT_CAUSAL", "ABSENT_TAKEN_OUT")

    def test_belief_in_what_is_not_acknowledged(self):
        self.two_believe(*HOLDS, "WEAK_WRITES")

    def test_notices_of_what_is_not_committed(self):
        self.two_believe(*HOLDS, "NOTICES_BEFORE_COMMIT")

    def test_leave_before_belief_ends(self):
        self.two_believe("LEAVES_BEFORE_BELIEF_ENDS")

    def test_token_that_a_prune_resets(self):
        self.token_is_no_higher("NO_FLOOR")

    def test_no_suspects(self):
        self.ticket_is_unknown(*LATE, "NO_SUSPECTS")

    def test_an_unknown_enter_taken_for_a_failure(self):
        self.ticket_is_unknown(*LATE, "UNKNOWN_IS_FAILURE")

    def test_a_leave_that_found_nothing_is_enough(self):
        self.ticket_is_unknown("NOTHING_IS_ENOUGH")


    def test_suspects_that_nobody_looks_at(self):
        self.waits_for_ever(*LATE, "NO_LOOKS_AT_SUSPECTS")

    def test_nobody_judges(self):
        self.waits_for_ever("NOBODY_JUDGES")


class InsertTakenBack(Case):
    """The insert of a session waits for the primary only, and a failover takes it back."""

    def test_the_session_holds_and_begins_again(self):
        self.breaks("!(held", *HOLDS, "REACH_AGAIN")

    def test_absence_taken_for_death(self):
        self.two_believe(*HOLDS, "ABSENCE_IS_DEATH")

    def test_tickets_of_a_missing_session_taken_out_without_a_mark(self):
        self.two_believe("HOLDS_ON", "BEATS=2", "FAILOVERS=2", "ABSENT_TAKEN_OUT", backward=True)


class Lease(Case):
    """lease.pml: a lease with a key, its repeats, a release, a break and a rival."""
    model = "lease.pml"
    story = "assertion violated"

    def both_believe(self, *macros):
        self.breaks("rival_believes", *macros)

    def has_two(self, *macros):
        self.breaks("made<=1", *macros)

    def is_broken_and_believed(self, *macros):
        self.breaks("made==0", "BREAKS", *macros)

    def test_repeats_and_a_release_make_one_lease(self):
        self.holds("LOSSES=1")

    def test_a_lease_that_is_renewed_and_broken(self):
        self.holds("BREAKS", "ONE_CALLER", "RENEWALS=1")

    def test_a_lease_that_is_broken_beside_repeats(self):
        self.holds("BREAKS", "HOLDS_ON", "LOSSES=0")

    def test_a_lease_that_is_broken_and_released(self):
        self.holds("BREAKS", "NO_RIVAL", "TICKS=3")

    def test_a_lease_from_the_reply(self):
        self.both_believe("LEASE_FROM_REPLY", "TICKS=5", "RENEWALS=1")

    def test_a_mark_of_any_beat(self):
        self.both_believe("MARK_ANY_BEAT", "TICKS=5", "RENEWALS=1")

    def test_a_call_that_fails_takes_the_lease_out(self):
        self.both_believe("FAILED_LEASE_TAKEN_OUT")

    def test_a_release_that_repeats_do_not_hear_of(self):
        self.has_two("RELEASED_KEY_UNSAID")

    def test_repeats_that_do_not_look_at_asks(self):
        self.has_two("LEASE_IGNORES_ASK")

    def test_repeats_that_do_not_look_at_asks_of_breakers(self):
        self.is_broken_and_believed("LEASE_IGNORES_ASK", "HOLDS_ON", "LOSSES=0", "TICKS=3")

    def test_a_renewal_that_does_not_look_at_asks(self):
        self.is_broken_and_believed("LEASE_IGNORES_ASK", "ONE_CALLER", "RENEWALS=1")

    def test_a_break_that_does_not_follow(self):
        self.breaks("now<until", "BREAKS", "BREAK_LOSES_PASSED", "ONE_CALLER")


class Bells(Case):
    """bells.pml: a waiter believes only what is committed and its own, and gets the lock."""
    model = "bells.pml"
    story = r"the waiter believes|a ring is lost|the cursor is lost|START OF CYCLE"

    def believed_is_not_held(self, *macros):
        self.breaks("==ticket", *macros)

    def bell_hangs(self, *macros):
        self.breaks("acceptance cycle", "NO_LOOK", *macros, progress=True)

    def test_a_ring_is_believed_only_if_its_grant_stays(self):
        self.holds()

    def test_a_ring_after_several_steps_that_no_majority_has(self):
        self.holds("ROOM=3", "UNKNOWNS=0")

    def test_a_ring_of_a_weak_write_is_not_believed(self):
        self.holds("WEAK", "UNKNOWNS=0")

    def test_a_ring_that_is_heard_again_is_not_believed(self):
        self.holds("FAILOVERS=0", "LOST_CURSORS=2")

    def test_the_lock_is_had_though_the_bell_is_rolled_back(self):
        self.holds("CRASHES", "UNKNOWNS=0", progress=True)

    def test_the_lock_is_had_whatever_ring_is_lost(self):
        self.holds("CRASHES", "WEAK", "FAILOVERS=0", "LOST_CURSORS=1", progress=True)

    def test_without_faults_the_bell_is_enough(self):
        self.holds("CALM", "NO_LOOK", "LOST_CURSORS=1", progress=True)

    def test_a_ring_is_believed_after_a_failover_and_a_late_ring(self):
        self.breaks("old_rang", "REACH")

    def test_a_ring_before_the_majority(self):
        self.believed_is_not_held("RINGS_BEFORE_MAJORITY")

    def test_a_ring_after_an_unknown_outcome(self):
        self.believed_is_not_held("RINGS_AFTER_UNKNOWN")

    def test_a_step_that_changes_nothing_and_does_not_wait(self):
        self.believed_is_not_held("NOTHING_DOES_NOT_WAIT")

    def test_a_weak_ring_with_a_token(self):
        self.believed_is_not_held("WEAK", "WEAK_RING_HAS_TOKEN")

    def test_a_ring_for_any_ticket_of_the_session(self):
        self.believed_is_not_held("RING_WITHOUT_TICKET")

    def test_a_lost_ring_and_no_look(self):
        self.bell_hangs("FAILOVERS=0")

    def test_a_lost_cursor_that_says_nothing(self):
        self.bell_hangs("CALM", "LOST_CURSORS=1", "LOST_CURSOR_SAYS_NOTHING")

    def test_a_made_bell_that_says_nothing(self):
        self.bell_hangs("CALM", "MADE_BELL_SAYS_NOTHING")


class Line(Case):
    """line.pml: a full queue and numbers for those outside; they come in order, and in the end."""
    model = "line.pml"
    story = r"waiter \d: |START OF CYCLE"
    fairness = 3

    def stays_outside(self, *macros):
        self.breaks("acceptance cycle", *macros, progress=True)

    def test_they_come_in_order_and_all_who_live_have_it(self):
        self.holds()

    def test_with_two_places(self):
        self.holds("PLACES=2")

    def test_five_with_two_places(self):
        self.holds("WAITERS=5", "PLACES=2", "DEATHS=1", "TIMEOUTS=0")

    def test_beside_one_that_only_tries(self):
        self.holds("TRIES")

    def test_when_the_record_goes(self):
        self.holds("PRUNES")

    def test_who_stays_gets_it(self):
        self.holds(progress=True)

    def test_who_stays_gets_it_with_two_places(self):
        self.holds("PLACES=2", progress=True)

    def test_who_stays_gets_it_beside_one_that_only_tries(self):
        self.holds("TRIES", progress=True)

    def test_who_stays_gets_it_when_the_record_goes(self):
        self.holds("PRUNES", progress=True)

    def test_newcomers_that_take_a_place_that_came_free(self):
        self.breaks("!(overtaken)", "NEWCOMERS_ENTER")

    def test_a_queue_in_the_order_of_arrival(self):
        self.breaks("!(out_of_order)", "WAITERS=5", "PLACES=2", "BY_ARRIVAL")

    def test_a_repeated_enter_that_stands_twice(self):
        self.breaks("!(stands_twice)", "TICKETS_TWICE")

    def test_skips_that_do_not_look_how_far_it_is(self):
        self.breaks("!(living_passed)", "SKIPS_OFTEN")

    def test_nobody_skips(self):
        self.stays_outside("NO_SKIP")

    def test_nobody_outside_watches_the_queue(self):
        self.stays_outside("NOBODY_OUTSIDE_WATCHES")

    def test_a_number_of_a_record_that_is_gone(self):
        self.stays_outside("NUMBERS_STAY", "PRUNES")


def main():
    global KEEP
    if "--keep" in sys.argv:
        at = sys.argv.index("--keep")
        KEEP = os.path.abspath(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    began = time.monotonic()
    result = unittest.main(exit=False).result
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print("%.0f s, of them %.0f on a processor; at most %.0f MB" %
          (time.monotonic() - began, processor_seconds(), most))
    failed = len(result.failures) + len(result.errors)
    print("%d passed, %d failed" % (result.testsRun - failed, failed))
    return 0 if result.wasSuccessful() and result.testsRun else 1


if __name__ == "__main__":
    sys.exit(main())
