/* SPDX-License-Identifier: Apache-2.0 */
/* httpd_library.c: see httpd_library.h. */
#include "httpd_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct library library;

/* Workers may ask at the same time; guards what was asked for last. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void keep(char *out, size_t size, const char *text)
{
    pthread_mutex_lock(&mutex);
    snprintf(out, size, "%s", text ? text : "");
    pthread_mutex_unlock(&mutex);
}

void library_fails(hf_code code, bool retryable, const char *text)
{
    pthread_mutex_lock(&mutex);
    library.err = (hf_error){.code = code, .retryable = retryable};
    snprintf(library.err.text, sizeof library.err.text, "%s", text);
    pthread_mutex_unlock(&mutex);
}

static hf_code result(const hf_error *wanted, hf_error *err)
{
    pthread_mutex_lock(&mutex);
    const hf_error found = *wanted;
    pthread_mutex_unlock(&mutex);
    if (found.code && err)
        *err = found;
    return found.code;
}

hf_code hf_list_locks(hf_client *client, const hf_list_options *options, hf_lock_info_fn each,
                      void *ctx, hf_error *err)
{
    (void)client;
    keep(library.prefix, sizeof library.prefix, options ? options->prefix : NULL);
    keep(library.after, sizeof library.after, options ? options->after : NULL);
    void (*on_list)(void) = library.on_list;
    if (on_list)
        on_list();
    size_t n = 0;
    bool more = true;
    while (more && n < library.n_locks) {
        const hf_lock_info *lock = &library.locks[n++];
        void (*on_lock)(void) = library.on_lock;
        if (on_lock)
            on_lock();
        if (!options || !options->in_use || lock->n_holders || lock->n_queue)
            more = each(ctx, lock);
    }
    pthread_mutex_lock(&mutex);
    library.in_use = options && options->in_use;
    library.limit = options ? options->limit : 0;
    library.n_shown = n;
    pthread_mutex_unlock(&mutex);
    return result(&library.err, err);
}

hf_code hf_list(hf_client *client, const char *prefix, hf_lock_info_fn each, void *ctx,
                hf_error *err)
{
    const hf_list_options options = {.struct_size = sizeof options, .prefix = prefix};
    return hf_list_locks(client, &options, each, ctx, err);
}

hf_code hf_show(hf_client *client, const char *name, hf_lock_info_fn each, void *ctx, hf_error *err)
{
    (void)client;
    keep(library.name, sizeof library.name, name);
    hf_code code = result(&library.err, err);
    if (!code && library.n_locks)
        each(ctx, &library.locks[0]);
    return code;
}

hf_code hf_why(hf_client *client, const char *name, hf_why_fn each, void *ctx, hf_error *err)
{
    bool more = true;
    (void)client;
    keep(library.name, sizeof library.name, name);
    for (size_t i = 0; i < library.n_links && more; i++)
        more = each(ctx, &library.links[i]);
    return result(&library.err, err);
}

hf_code hf_sessions(hf_client *client, hf_session_info_fn each, void *ctx, hf_error *err)
{
    size_t i = 0;
    (void)client;
    while (i < library.n_sessions && each(ctx, &library.sessions[i++]))
        ;
    return result(&library.err, err);
}

hf_code hf_break(hf_client *client, const char *name, const hf_break_options *options,
                 hf_error *err)
{
    (void)client;
    keep(library.name, sizeof library.name, name);
    keep(library.reason, sizeof library.reason, options->reason);
    keep(library.by, sizeof library.by, options->by ? options->by : "nobody");
    library.if_token = options->if_token;
    library.n_breaks++;
    if (library.on_break)
        library.on_break(options->cancel);
    return result(&library.err, err);
}

/* ---- Leases ---- */

typedef hf_code begin_fn(hf_client *, const char *, const hf_lease_options *, hf_lease_fn, void *,
                         hf_lease_wait **, hf_error *);
typedef hf_code renew_fn(hf_client *, const char *, hf_lease *, hf_error *);
typedef hf_code release_fn(hf_client *, const char *, hf_error *);

typedef struct grant {
    hf_lease_fn done;
    void *ctx;
} grant;

/* Its strings are those that it carries: what its pointers say is of another lease. */
static void add_previous(hf_lease *lease)
{
    lease->previous = (hf_last){.outcome = HF_OUTCOME_ABANDONED,
                                .who = "another",
                                .reason = "another",
                                .done = {.who = "another"}};
    snprintf(lease->previous_who, sizeof lease->previous_who, "the one before");
    snprintf(lease->previous_reason, sizeof lease->previous_reason, "it died");
    snprintf(lease->previous_done_who, sizeof lease->previous_done_who, "the first");
}

/* Tells of a lease as if it ended when the test says. */
static void on_done(void *ctx, const hf_lease *lease, const hf_error *err)
{
    grant g = *(grant *)ctx;
    free(ctx);
    hf_lease told = lease ? *lease : (hf_lease){.token = 0};
    told.ends_at_ns = library.ends_at_ns;
    if (library.has_previous)
        add_previous(&told);
    g.done(g.ctx, lease ? &told : NULL, err);
}

hf_code hf_lease_begin(hf_client *client, const char *name, const hf_lease_options *options,
                       hf_lease_fn done, void *ctx, hf_lease_wait **out, hf_error *err)
{
    keep(library.name, sizeof library.name, name);
    keep(library.why, sizeof library.why, options->lock.why);
    keep(library.owner, sizeof library.owner, options->owner);
    keep(library.host, sizeof library.host, options->host);
    keep(library.key, sizeof library.key, options->key);
    pthread_mutex_lock(&mutex);
    library.lease = *options;
    pthread_mutex_unlock(&mutex);
    if (library.begin_err.code)
        return result(&library.begin_err, err);
    begin_fn *begin = (begin_fn *)(uintptr_t)dlsym(RTLD_NEXT, "hf_lease_begin");
    if (!library.ends_at_ns)
        return begin(client, name, options, done, ctx, out, err);
    grant *g = malloc(sizeof *g);
    *g = (grant){done, ctx};
    return begin(client, name, options, on_done, g, out, err);
}

hf_code hf_lease_renew(hf_client *client, const char *id, hf_lease *out, hf_error *err)
{
    library.n_renewals++;
    if (library.err.code)
        return result(&library.err, err);
    if (library.renew_code) {
        *err = (hf_error){.code = library.renew_code, .text = "not renewed"};
        return library.renew_code;
    }
    renew_fn *renew = (renew_fn *)(uintptr_t)dlsym(RTLD_NEXT, "hf_lease_renew");
    hf_code code = renew(client, id, out, err);
    if (library.renewed_till)
        out->ends_at_ns = library.renewed_till;
    return code;
}

hf_code hf_lease_release(hf_client *client, const char *id, hf_error *err)
{
    library.n_releases++;
    if (library.err.code)
        return result(&library.err, err);
    release_fn *release = (release_fn *)(uintptr_t)dlsym(RTLD_NEXT, "hf_lease_release");
    return release(client, id, err);
}
