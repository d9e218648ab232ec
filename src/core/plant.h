/* SPDX-License-Identifier: Apache-2.0 */
/* plant.h: bugs that can be planted, to see that the tests find them (tests/planted). PLANTED(BUG)
 * is the constant false, and what it guards is no code, unless this was built with
 * -DHOLDFAST_PLANTED=ON and the environment's HOLDFAST_PLANT names the bug. */
#ifndef CORE_PLANT_H
#define CORE_PLANT_H

#include <stdbool.h>

/* X(bug, what is wrong then) */
#define PLANT_TABLE(X)                                                                             \
    X(LEASE_FROM_REPLY, "a lease counts from the reply to a beat, not from before it was sent")    \
    X(BEGIN_FROM_REPLY, "the first lease counts from the reply to the session's insert")           \
    X(NO_DRIFT_ALLOWANCE, "clocks are taken to run at the same speed")                             \
    X(REVIVED_BELIEF, "a grant is believed though the lease ran out before its answer came")       \
    X(DEADLINE_BY_BEATER, "the deadline is watched by the thread that beats")                      \
    X(BELIEF_WHILE_LEAVING, "belief ends after the leave, not before it is sent")                  \
    X(TICKET_FORGOTTEN, "who gives up waiting leaves the ticket where it is")                      \
    X(GIVE_BACK_TOLD, "a grant that nobody was told of is given back as if it had been held")      \
    X(LEAVE_UNCONFIRMED, "a leave that changed nothing counts as done")                            \
    X(LAGGING_CONFIRM, "that a leave is done is confirmed by a read that is not linearizable")     \
    X(CLOSE_UNORDERED, "an acquire does not wait for the release of what was closed before")       \
    X(UNKNOWN_IS_FAILURE, "an enter without an answer is taken for one that was not made")         \
    X(NO_SUSPECTS, "an enter that lands after its leave is never looked for")                      \
    X(NOTICE_TRUSTED, "a notice is believed without a look")                                       \
    X(TICKETS_BEFORE_MARK, "tickets are taken out before the mark is acknowledged")                \
    X(MARK_ANY_BEAT, "a mark does not compare the beat")                                           \
    X(WATCH_FROM_SENDING, "a watch counts from the sending of the first look, not its arrival")    \
    X(MISSING_IS_DEAD, "a session that is missing is dead at first sight")                         \
    X(SERVER_CLOCK, "a session is judged by the server's clock")                                   \
    X(ANY_CLOCK_TRUSTED, "a try trusts the clock of any primary, whatever another clock says")     \
    X(SIGHTING_OF_ANY_BEAT, "a try takes what was seen of an earlier beat for one of this")        \
    X(ONLY_HEAD_JUDGED, "of those who wait ahead, only the head of the queue is judged")           \
    X(BUSY_DOES_NOT_JUDGE, "who was refused by a full queue judges nobody")                        \
    X(BEAT_RENEWS_ASKED, "a beat renews a ticket that was asked for")                              \
    X(ASKED_GRANT_BELIEVED, "a late grant of a ticket that was asked for is believed")             \
    X(ASK_ANSWERED_EARLY, "an ask is taken out before the leave is acknowledged")                  \
    X(BREAK_WITHOUT_WAIT, "a break does not wait until the holder cannot believe any more")        \
    X(NO_LOOK_UNTOLD, "who waits looks only when it was told to")                                  \
    X(NEVER_VERIFIED, "holders do not look whether their tickets are still there")                 \
    X(FORK_UNNOTICED, "a forked child goes on with its parent's client")                           \
    X(TOKEN_RESET, "a release resets the token")                                                   \
    X(RELEASE_UNOWNED, "a release takes out whoever holds")                                        \
    X(GRANT_PAST_LIMIT, "a grant does not look at the limit")                                      \
    X(GRANT_SKIPS_HEAD, "a grant passes a head of the queue that does not fit")                    \
    X(READER_BEFORE_WRITER, "a reader is let in before a writer that waits")                       \
    X(DOWNGRADE_BELIEVED, "exclusive is believed until a downgrade is acknowledged")               \
    X(DOWNGRADE_FORGOTTEN, "a downgrade that was not acknowledged is not sent again")              \
    X(PASS_FIRST_TOKEN, "a lease gets the block's first token, not the one in use")                \
    X(PASS_TWICE, "a lease's ticket may come to stand twice")                                      \
    X(PASS_UNCONFIRMED, "a shared lease is made anew that was released as it was passed")          \
    X(RELEASED_KEY_UNSAID, "a release does not tell repeats of its key before the ticket goes")    \
    X(PASS_REVIVES, "a late call makes a lease anew that was released just before")                \
    X(PASS_LEAVES_TICKET, "where a lease stands already, other calls' tickets stay beside it")     \
    X(DEATH_UNDOES_PERIOD, "a death after it takes away that the work of a period was done")       \
    X(BREAK_LOSES_PASSED, "a break is content when the holder's place has become a lease's")       \
    X(FAILED_LEASE_TAKEN_OUT, "a call that failed to make a lease takes out whatever was made")    \
    X(KEY_FOR_ANY_REQUEST, "a repeat that asks for another mode finds the lease all the same")     \
    X(LEASE_FOUND_BEFORE, "what was seen of a lease's session before the wait counts after it")    \
    X(LEASE_UNDER_ANY_NAME, "an id with another name ends the lease")                              \
    X(FAILED_LEASE_STAYS, "a call that failed to make a lease does not give its ticket back")      \
    X(LEASE_IGNORES_ASK, "a renewal, or a repeat, does not look whether the lease was broken")     \
    X(LEASE_LAGGING_LOOK, "that a lease's ticket is gone is believed of a look that may lag")      \
    X(RENEWED_FROM_REPLY, "a lease counts from the reply to its renewal")                          \
    X(LEASE_BEGUN_FROM_REPLY, "a lease counts from the reply to its session's insert")             \
    X(REPEAT_WAITS_BEHIND_ITSELF, "a repeat that times out does not look for its lease")           \
    X(PASSED_ON_IN_DOUBT, "a lock that may have become a lease is passed on in line")              \
    X(LEASE_HAS_PROCESS, "a lease is taken for dead as no process keeps it")                       \
    X(UPGRADE_SAME_TICKET, "an upgrade keeps its ticket, which a late downgrade may name")         \
    X(UPGRADE_UNANSWERED, "an upgrade without an answer is believed")                              \
    X(UPGRADE_ORPHANED, "the ticket of an upgrade without an answer is forgotten")                 \
    X(UPGRADE_OVERTAKES, "an upgrade passes whoever waits")                                        \
    X(DEADLOCK_UNCONFIRMED, "a deadlock that was seen twice is believed")                          \
    X(DEADLOCK_ALL_GIVE_UP, "all in a deadlock give up, not the youngest")                         \
    X(DEADLOCK_UNSAID, "what is held meanwhile is not said")                                       \
    X(ALL_UNORDERED, "of several locks those that come later are kept while one is waited for")    \
    X(PEERS_KEPT, "of several locks that were taken together one is lost, the others stay")        \
    X(ENDED_IN_LINE, "who gives up stays in line until its thread goes on")                        \
    X(TICKET_TWICE, "a repeated enter takes a second place")                                       \
    X(TRY_STAYS, "a try that was refused goes on waiting")                                         \
    X(ABANDONED_FORGOTTEN, "the pipeline lets any leave overwrite `abandoned`")                    \
    X(NO_LITERAL, "text from outside stands in the pipeline as an expression")                     \
    X(LOCAL_LOOK, "a look is a local read, which a failover can take back")                        \
    X(EARLIER_LOOK, "a look may be older than what was seen before")                               \
    X(LOCAL_READ_BACK, "an enter without an answer is read back locally, and believed")            \
    X(WEAK_WRITES, "a write waits for one server's acknowledgement, not for a majority's")         \
    X(MARKS_FORGOTTEN, "a dead session's mark goes though a ticket of it still stands")            \
    X(PRUNE_FORGETS_TOKEN, "the token of a pruned record can come again")                          \
    X(PRUNE_FORGETS_PERIOD, "a record is pruned though its period still runs")                     \
    X(SKIP_IS_TOLD, "who finds the work of its period done overwrites what says so")               \
    X(DOG_GIVES_NO_TIME, "a lock that was not fed is given up before its notice is over")          \
    X(POWER_FORGETS_TOKEN, "tokens that a loss of power took out of SQLite's file come again")     \
    X(LOCKED_BYTE_IS_FREE, "in SQLite's lock file, every byte passes for free")                    \
    X(FREE_BYTE_IS_LOCKED, "in SQLite's lock file, every byte passes for locked")                  \
    X(NEW_RECORD_LAGS, "a new record's tokens begin a second behind the floor, as another's may")  \
    X(BLOCK_TAKES_ALL, "a block leaves no tokens below the floor for those who wait")              \
    X(BLOCK_BEYOND_FLOOR, "a block of tokens reaches beyond the floor")                            \
    X(NO_FLOOR, "the pipeline gives tokens without regard to the cluster's time")                  \
    X(PATIENT_BEATS, "a beat that hangs is waited for as long as any other call")                  \
    X(DROP_UNHEARD, "the change stream's filter does not name drops")                              \
    X(GUARD_OPEN, "the guard lets a lower token pass")                                             \
    X(EXPIRED_AT_FIRST_LOOK, "protocol sharding: a lock never looked at before is expired")        \
    X(PING_UNNOTICED, "protocol sharding: a lock expires though its owner pings")                  \
    X(ELECTION_UNNOTICED, "protocol sharding: the clocks of two primaries are taken for one")      \
    X(GRAB_AGAIN_UNCLEANED, "protocol sharding: a grab is repeated without an unlock")             \
    X(OVERTAKE_UNCONFIRMED, "protocol sharding: the ping is not read again before an overtake")    \
    X(OVERTAKE_ANY_TS, "protocol sharding: an overtake does not compare what was seen")            \
    X(TURNS_UNBOUNDED, "threads of one client pass a lock on while another session waits")         \
    X(RECALL_IGNORED, "a lock that lingers is not given up when another session asks for it")      \
    X(TOKENS_BEYOND_BLOCK, "a local turn has a token that was not kept for it")                    \
    X(GRACE_OUTSIDE_LEASE, "`run` grants its command the grace after the lease's end")

#define X(bug, wrong) PLANT_##bug,
typedef enum plant { PLANT_TABLE(X) PLANT_COUNT } plant;
#undef X

#ifdef HOLDFAST_PLANTED
bool plant_is_chosen(plant bug); /* planted/chosen.c: in builds with planted bugs only */
#define PLANTED(bug) plant_is_chosen(PLANT_##bug)
#else
#define PLANTED(bug) ((void)PLANT_##bug, false)
#endif

#endif
