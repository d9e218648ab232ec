/* SPDX-License-Identifier: Apache-2.0 */
/* httpd_library.h: stands between a service and the library in the test's own process: what the
 * store lists is what the test says, and calls fail when the test says so. What concerns leases
 * goes on to the library. Link httpd_library.c to use it. */
#ifndef TESTS_HTTPD_LIBRARY_H
#define TESTS_HTTPD_LIBRARY_H

#include <stdatomic.h>
#include <stdbool.h>

#include <holdfast/holdfast.h>

struct library {
    hf_error err; /* library_fails(): what listings, breaks, renewals and releases fail with */
    hf_error begin_err;   /* the same for hf_lease_begin() */
    int64_t ends_at_ns;   /* of a lease that was granted, by CLOCK_BOOTTIME; 0: as it is */
    bool has_previous;    /* such a lease had a holder before, which did the work of its period */
    int64_t renewed_till; /* the same after a renewal */
    hf_code renew_code;   /* what renewals fail with, once they have been counted */
    void (*_Atomic on_list)(void);       /* called while locks are listed; NULL: nothing */
    void (*_Atomic on_lock)(void);       /* the same before each lock that it gives */
    void (*on_break)(hf_cancel *cancel); /* the same for a break */
    _Atomic(const hf_lock_info *) locks;
    atomic_size_t n_locks;
    const hf_why_link *links;
    size_t n_links;
    const hf_session_info *sessions;
    size_t n_sessions;

    /* What was asked for last. */
    char name[100], prefix[100], after[100];
    bool in_use;
    size_t limit;
    size_t n_shown; /* locks that the last listing showed until it was ended */
    char reason[100], by[100];
    int64_t if_token;
    atomic_int n_breaks, n_renewals, n_releases;
    hf_lease_options lease; /* its strings are gone */
    char why[100], owner[100], host[100], key[600];
};

extern struct library library;

/* From now on, also while the service's threads make calls; HF_OK: they do not fail. */
void library_fails(hf_code code, bool retryable, const char *text);

#endif
