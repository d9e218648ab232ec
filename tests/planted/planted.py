#!/usr/bin/python3
"""Plants each bug of src/core/plant.h in turn, and runs the part of the suite that must catch it.
"""
# SPDX-License-Identifier: Apache-2.0
#
#     planted.py [BUG...]
#
# HOLDFAST_BUILD: a build with -DHOLDFAST_PLANTED=ON. Caught means: an assertion failed. A program
# that crashed, was not there, ran no test or ran out of time has caught nothing. Each part must
# also pass with nothing planted. Prints a table, and exits 1 when something is not as it must be.
import concurrent.futures
import contextlib
import os
import re
import subprocess
import sys
import threading
import time

from mongod import ReplicaSet

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BUILD = os.path.abspath(os.environ.get("HOLDFAST_BUILD", os.path.join(ROOT, "build-planted")))
SECONDS = 3600  # for one part: only what hangs takes longer
AT_ONCE = 3  # most parts wait for a lease to end, and want no processor

SERVER = threading.Lock()  # its fail points are one test's at a time

# bug: the parts that catch it. A part is a test program and a word of the test's name; a
# conformance part names the store, too; the simulator is given a number of client-seconds.
CAUGHT_BY = {
    "LEASE_FROM_REPLY": ["test_believing before_its_beat", "sim 200000"],
    "BEGIN_FROM_REPLY": ["test_believing before_it_was_asked_for"],
    "NO_DRIFT_ALLOWANCE": ["test_lease holder_stops_before", "test_judge only_after_ttl"],
    "REVIVED_BELIEF": ["test_believing after_the_lease"],
    "DEADLINE_BY_BEATER": ["test_believing beat_that_hangs"],
    "BELIEF_WHILE_LEAVING": ["test_believing before_the_leave", "sim 12000"],
    "TICKET_FORGOTTEN": ["test_giving_up takes_its_ticket_along", "sim 12000"],
    "GIVE_BACK_TOLD": ["test_giving_up give_back_is_no_outcome"],
    "LEAVE_UNCONFIRMED": ["test_giving_up leave_that_did_nothing"],
    "LAGGING_CONFIRM": ["test_giving_up leave_that_did_nothing"],
    "CLOSE_UNORDERED": ["conformance memory: close_is_ordered"],
    "UNKNOWN_IS_FAILURE": ["test_giving_up repeated_as_it_was"],
    "NO_SUSPECTS": ["test_giving_up lands_late", "sim 12000"],
    "NOTICE_TRUSTED": ["test_believing notice_without_a_token", "sim 12000"],
    "TICKETS_BEFORE_MARK": ["test_judging mark_is_acknowledged", "sim 200000"],
    "MARK_ANY_BEAT": ["conformance memory: mark_compares", "conformance sqlite: mark_compares",
                      "conformance mongodb mark_compares", "sim 200000"],
    "WATCH_FROM_SENDING": ["test_judging first_look_arrives"],
    "MISSING_IS_DEAD": ["test_judge missing_is_dead_only_after", "sim 200000"],
    "SERVER_CLOCK": ["test_judge stores_clock_decides_nothing"],
    "ANY_CLOCK_TRUSTED": ["conformance mongodb gone_by_its_own_servers_clock"],
    "SIGHTING_OF_ANY_BEAT": ["conformance mongodb seen_of_an_earlier_beat"],
    "ONLY_HEAD_JUDGED": ["test_judging all_found_in_one_ttl"],
    "BUSY_DOES_NOT_JUDGE": ["test_judging does_not_fit_into_the_queue"],
    "BEAT_RENEWS_ASKED": ["test_believing no_more_than_the_ttl_from_the_ask"],
    "ASKED_GRANT_BELIEVED": ["test_believing asked_for_before_it_came"],
    "ASK_ANSWERED_EARLY": ["test_believing ask_stays"],
    "BREAK_WITHOUT_WAIT": ["test_losing broken_lock_is_being_stopped"],
    "NO_LOOK_UNTOLD": ["test_waiting hears_nothing"],
    "TURNS_UNBOUNDED": ["test_turns another_session_has_its_turn"],
    "RECALL_IGNORED": ["test_turns lingering_lock_is_recalled"],
    "TOKENS_BEYOND_BLOCK": ["sim 200000"],
    "NEVER_VERIFIED": ["conformance memory: ticket_that_vanished_is_lost"],
    "FORK_UNNOTICED": ["test_releasing child_that_closes"],
    "TOKEN_RESET": ["test_record tokens_rise", "sim 12000"],
    "RELEASE_UNOWNED": ["test_record_random after_every_random_step", "sim 12000"],
    "GRANT_PAST_LIMIT": ["test_record k_of_n", "conformance memory: k_of_n", "sim 12000"],
    "GRANT_SKIPS_HEAD": ["test_record lets_nobody_pass", "sim 12000"],
    "READER_BEFORE_WRITER": ["test_record behind_a_waiting_writer",
                             "conformance mongodb shared_and_exclusive", "sim 12000"],
    "DOWNGRADE_BELIEVED": ["test_changing before_the_downgrade_is_sent", "sim 60000"],
    "DOWNGRADE_FORGOTTEN": ["test_changing goes_on_in_the_background"],
    "PASS_FIRST_TOKEN": ["test_record_pass token_in_use"],
    "PASS_TWICE": ["test_record_pass the_caller_leaves"],
    "RELEASED_KEY_UNSAID": ["orders release"],
    "PASS_UNCONFIRMED": ["orders reader"],
    "PASS_REVIVES": ["test_record_pass made_anew"],
    "PASS_LEAVES_TICKET": ["test_record_pass the_caller_leaves", "test_leases becomes_the_lease"],
    "DEATH_UNDOES_PERIOD": ["conformance memory: death_undoes", "test_record_last no_death_undoes"],
    "BREAK_LOSES_PASSED": ["test_leases follows_to_the_lease"],
    "FAILED_LEASE_STAYS": ["test_leases leaves_no_trace"],
    "FAILED_LEASE_TAKEN_OUT": ["test_leases takes_no_lease_out"],
    "KEY_FOR_ANY_REQUEST": ["conformance memory: for_one_request"],
    "LEASE_FOUND_BEFORE": ["test_leases found_before_the_wait"],
    "LEASE_UNDER_ANY_NAME": ["conformance memory: another_name"],
    "LEASE_IGNORES_ASK": ["test_leases what_is_asked_for"],
    "LEASE_LAGGING_LOOK": ["test_leases looked_at_twice"],
    "RENEWED_FROM_REPLY": ["test_leases before_its_request"],
    "LEASE_BEGUN_FROM_REPLY": ["test_leases before_its_request"],
    "REPEAT_WAITS_BEHIND_ITSELF": ["test_leases have_one_lease"],
    "LEASE_HAS_PROCESS": ["conformance sqlite: outlives_who"],
    "UPGRADE_SAME_TICKET": ["test_changing does_not_lower_an_upgrade"],
    "UPGRADE_UNANSWERED": ["test_changing without_an_answer_is_not_believed", "sim 60000"],
    "UPGRADE_ORPHANED": ["test_changing found_and_lowered"],
    "UPGRADE_OVERTAKES": ["test_record_change passes_nobody", "sim 60000"],
    "DEADLOCK_UNCONFIRMED": ["test_deadlock given_up_unheard"],
    "DEADLOCK_ALL_GIVE_UP": ["test_deadlock last_to_come"],
    "DEADLOCK_UNSAID": ["conformance memory: wait_for_each_other", "sim 60000"],
    "ALL_UNORDERED": ["conformance mongodb do_not_block_each_other"],
    "PEERS_KEPT": ["conformance memory: lost_together"],
    "ENDED_IN_LINE": ["test_turns given_up_stands_in_no_line"],
    "TICKET_TWICE": ["test_record entering_again"],
    "TRY_STAYS": ["test_record try_takes_its_ticket_out"],
    "ABANDONED_FORGOTTEN": ["differential"],
    "NO_LITERAL": ["conformance mongodb outside_stays_text",
                   "conformance mongodb sent_as_literal"],
    "LOCAL_LOOK": ["conformance mongodb majority_on_the_primary"],
    "EARLIER_LOOK": ["test_waiting look_is_no_older",
                     "conformance mongodb majority_on_the_primary"],
    "LOCAL_READ_BACK": ["conformance mongodb grant_without_a_majority"],
    "WEAK_WRITES": ["conformance mongodb majority_on_the_primary"],
    "MARKS_FORGOTTEN": ["test_sqlite_sessions while_a_ticket_stands",
                        "conformance mongodb ticket_of_it_stands"],
    "PRUNE_FORGETS_TOKEN": ["test_memory after_a_prune", "test_sqlite rise_after_a_prune",
                            "conformance mongodb pruned_when_old"],
    "PRUNE_FORGETS_PERIOD": ["test_memory until_its_period", "test_sqlite until_its_period"],
    "SKIP_IS_TOLD": ["conformance memory: once_per_period"],
    "DOG_GIVES_NO_TIME": ["test_dog time_to_stop"],
    "POWER_FORGETS_TOKEN": ["test_sqlite loss_of_power"],
    "LOCKED_BYTE_IS_FREE": ["conformance sqlite: exclusive_excludes"],
    "FREE_BYTE_IS_LOCKED": ["test_sqlite_processes crash_is_seen_at_once"],
    "PASSED_ON_IN_DOUBT": ["test_turns may_have_become_a_lease"],
    "NEW_RECORD_LAGS": ["test_record_blocks begins_at_the_floor", "sim 200000"],
    "BLOCK_TAKES_ALL": ["test_record_blocks leaves_tokens_for_those_who_wait", "sim 60000"],
    "BLOCK_BEYOND_FLOOR": ["test_record_blocks ends_at_the_floor", "sim 12000"],
    "NO_FLOOR": ["conformance mongodb pruned_when_old"],
    "PATIENT_BEATS": ["conformance mongodb within_a_sixth"],
    "DROP_UNHEARD": ["conformance mongodb drop_is_heard"],
    "GUARD_OPEN": ["test_guard_sqlite lower", "conformance mongodb lower_ones"],
    "EXPIRED_AT_FIRST_LOOK": ["test_sharding_expiry never_looked_at"],
    "PING_UNNOTICED": ["test_sharding_expiry another_ping"],
    "ELECTION_UNNOTICED": ["test_sharding_expiry another_election"],
    "GRAB_AGAIN_UNCLEANED": ["test_sharding_round after_an_unlock"],
    "OVERTAKE_UNCONFIRMED": ["test_sharding_round pings_while_we_were_stopped"],
    "OVERTAKE_ANY_TS": ["conformance mongodb:hfProtocol=sharding overtake_compares"],
    "GRACE_OUTSIDE_LEASE": ["cli/test_signals Lost.test_break_stops_the_command_before_the_next"
                            "_has_the_lock"],
}


def bugs_there():
    with open(os.path.join(ROOT, "src/core/plant.h")) as header:
        return re.findall(r"\bX\((\w+), \"", header.read())


def uses_server(part):
    return " mongodb" in part or part == "differential"


def command_of(part):
    """The command, and what it finds in its environment."""
    program, *words = part.split()
    if "/" in program:
        return ([sys.executable, os.path.join(ROOT, "tests", program + ".py"), *words],
                {"HOLDFAST_BIN": os.path.join(BUILD, "holdfast"), "HOLDFAST_BUILD": BUILD})
    path = os.path.join(BUILD, "tests", program)
    if program == "conformance":
        return [path, *words], {}
    if program == "sim":
        return [path, "--most-broken", "1", "--client-seconds", *words], {}
    if program == "orders":
        return [path, "6000", *words], {}
    if program == "differential":
        return [path, os.environ["HOLDFAST_TEST_URI"]], {"HOLDFAST_TEST_STEPS": "3000"}
    return [path], {"HOLDFAST_TEST_FILTER": words[0]}


def passed(text):
    """How many tests passed, by what cmocka, unittest, the differential or the simulator say."""
    counts = [int(n) for n in re.findall(r"\[  PASSED  \] (\d+) test", text)]
    counts += [int(n) for n in re.findall(r"^Ran (\d+) tests? ", text, re.M)]
    others = re.findall(r"^  equal, in |; 0 worlds broke a rule|scenes, 0 failures$", text, re.M)
    return sum(counts) + len(others)


def has_failed_assertion(text):
    return bool(re.search(r"^\[  FAILED  \] |^FAIL: |^  NOT EQUAL|^BROKEN: ", text, re.M))


def run(part, bug):
    """What went wrong, or None; and the seconds it took."""
    words, more = command_of(part)
    env = {k: v for k, v in os.environ.items() if k != "HOLDFAST_PLANT"}
    env.update(more)
    if bug:
        env["HOLDFAST_PLANT"] = bug
    with SERVER if uses_server(part) else contextlib.nullcontext():
        return run_with(words, env, bug)


def run_with(words, env, bug):
    began = time.monotonic()
    try:
        result = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, timeout=SECONDS,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error), time.monotonic() - began
    seconds = time.monotonic() - began
    text = result.stdout.decode("utf-8", "replace")
    return judge(bug, result.returncode, text), seconds


def judge(bug, status, text):
    if status < 0:
        return "it crashed (signal %d):\n%s" % (-status, text[-2000:])
    if not bug:
        is_right = status == 0 and passed(text) > 0
        return None if is_right else "fails with nothing planted (%d):\n%s" % (status, text[-3000:])
    if status == 0:
        return "was not noticed"
    return None if has_failed_assertion(text) else "failed, but by no assertion:\n" + text[-2000:]


def check_names(table):
    there = bugs_there()
    wrong = ["%s: has no part" % bug for bug in there if bug not in table]
    wrong += ["%s: is no bug" % bug for bug in table if bug not in there]
    return wrong


def run_all(tasks):
    """(bug, part) -> (what went wrong, seconds), printed as they end."""
    results = {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        running = {pool.submit(run, part, bug): (bug, part) for bug, part in tasks}
        for done in concurrent.futures.as_completed(running):
            bug, part = running[done]
            problem, seconds = results[bug, part] = done.result()
            print("%-22s | %-72s | %5.1f%s" % (bug or "(none)", part, seconds,
                                               " | " + problem if problem else ""), flush=True)
    return results


def main():
    wanted = sys.argv[1:] or list(CAUGHT_BY)
    wrong = check_names(CAUGHT_BY)
    tasks = [(bug, part) for bug in wanted for part in CAUGHT_BY[bug]]
    tasks += [(None, part) for part in dict.fromkeys(part for _, part in tasks)]
    print("%-22s | %-72s | seconds" % ("bug", "caught by"))
    if any(uses_server(part) for _, part in tasks) and "HOLDFAST_TEST_URI" not in os.environ:
        with ReplicaSet() as rs:
            os.environ["HOLDFAST_TEST_URI"] = rs.uri
            results = run_all(tasks)
    else:
        results = run_all(tasks)
    wrong += ["%s, %s: %s" % (bug or "nothing planted", part, problem.split("\n")[0])
              for (bug, part), (problem, _) in results.items() if problem]
    for each in wrong:
        print("WRONG: " + each)
    caught = sum(1 for bug in wanted if not any(results[bug, p][0] for p in CAUGHT_BY[bug]))
    print("%d of %d planted bugs caught" % (caught, len(wanted)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
