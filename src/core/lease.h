/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h: the arithmetic of leases (R4, R5, R7); the client asks it when to beat, when to stop
 * believing, and from when on another session counts as dead. */
#ifndef CORE_LEASE_H
#define CORE_LEASE_H

#include <holdfast/store.h>

#define LEASE_TTL_MIN_MS 1000
#define LEASE_TTL_MAX_MS 3600000
#define LEASE_TTL_DEFAULT_MS 10000

#define MONO_NEVER ((hf_mono){INT64_MAX})

hf_mono mono_add_ms(hf_mono t, int64_t ms); /* saturates at MONO_NEVER */
hf_mono mono_min(hf_mono a, hf_mono b);
hf_mono mono_max(hf_mono a, hf_mono b);
bool mono_reached(hf_mono due, hf_mono now);
int64_t mono_ms_until(hf_mono t, hf_mono now); /* rounded up; negative when past */

/* How far two clocks may drift apart over one ttl, and the price of a thread's wake-up: ttl/500 +
 * 5 ms, subtracted on the holder's side and added on the watcher's (R4, R5). */
int64_t lease_allowance_ns(int64_t ttl_ms);

/* How far beyond its end a lease must be, by the very clock that it was counted with, for a request
 * that may not wait (R6): clock_trust_ms where a process keeps it; else the allowance, as there is
 * no process that could be late. */
int64_t lease_trust_ms(bool has_process, int64_t ttl_ms, int64_t clock_trust_ms);

/* When a session stops believing, counted from before its last acknowledged beat was sent. */
hf_mono lease_end(hf_mono sent, int64_t ttl_ms);

/* When others may mark it, counted from the arrival of the first look that showed that beat. */
hf_mono lease_watch_end(hf_mono first_seen, int64_t ttl_ms);

/* How long after a beat the next one is due: a third of the ttl, or less if the lease then outlives
 * an outage of 25 s that begins just before the next beat: 5 s with a ttl of 40 s. Whatever is to
 * be looked at as often as a session beats takes this too. */
int64_t lease_beat_ms(int64_t ttl_ms);
/* The same for a session that only waits, so that many of them cost the store little. It outlives
 * an outage of 15 s: 13.3 s with a ttl of 40 s. */
int64_t lease_waiting_beat_ms(int64_t ttl_ms);
hf_mono lease_beat_due(hf_mono sent, int64_t ttl_ms);
/* How long an outage of the store may last that begins just before a beat is due, so that `run`
 * with its standard grace need not stop its command. The beat is answered within a tenth of the
 * ttl, at most 4 s, after the outage. 25.4 s with a ttl of 40 s. */
int64_t lease_outlives_ms(int64_t ttl_ms);
/* The shortest ttl in whole seconds that outlives it. */
int64_t lease_that_outlives_ms(int64_t outage_ms);
/* How much sooner the first beat of a session is due than another. The session's beginning took
 * began_ms, which is a round trip and a commit. The first beat makes its connection, which takes up
 * to four of those (TCP, TLS, hello, authentication), and may be lost; a lease that is short beside
 * that must not end meanwhile. */
int64_t lease_first_sooner_ms(int64_t began_ms);
/* When what failed is tried again: a twentieth of the ttl later, at most half a second. */
hf_mono lease_retry_due(hf_mono now, int64_t ttl_ms);

/* A beat that is due `every_ms` after the last one, brought forward by less than a sixth of that,
 * to a moment that all clients have in common: their wall clocks, read at `now`, show a multiple of
 * every_ms/6. Then many beats reach the servers at once and share the cost of a commit. Nothing
 * else depends on those clocks. */
hf_mono lease_in_step(hf_mono due, int64_t every_ms, hf_mono now, hf_wall wall);

/* When to look again at a session that beats so often and was seen with this much of its lease
 * left: a little after its next beat is due, so that one look finds the new beat. */
hf_mono lease_look_due(hf_mono now, int64_t ttl_ms, int64_t every_ms, int64_t lease_left_ms);

#endif
