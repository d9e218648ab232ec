/* SPDX-License-Identifier: Apache-2.0 */
/* acquire.c: takes a lease for a request: lets the library wait, and answers with the outcome. A
 * client that hangs up meanwhile leaves the queue. */
#include "httpd/acquire.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "httpd/address.h"
#include "httpd/answer.h"
#include "httpd/asked.h"
#include "httpd/clock.h"
#include "httpd/fail.h"
#include "httpd/routes.h"
#include "show/json.h"
#include "show/text.h"

#define KEY_MOST 256

struct acquire {
    request *req;
    asked asked;
    char *key;
    char who[NI_MAXHOST]; /* the client's address */
    admission let;        /* whether it got a place */
    wait_entry entry;
    pthread_mutex_t mutex; /* guards the members below until the wait has begun */
    hf_lease_wait *wait;
    bool is_gone; /* the client is gone, or the service soon will be */
    hf_lease lease;
    hf_error err;
};

/* ---- What is asked for ---- */

/* The key determines the lease's id. It contains the caller's access token or user, so that nobody
 * else can find the lease. */
static hf_code read_key(acquire *a, hf_error *err)
{
    const char *given =
        MHD_lookup_connection_value(a->req->mhd, MHD_HEADER_KIND, "Idempotency-Key");
    if (!given)
        return HF_OK;
    if (!*given || strlen(given) > KEY_MOST)
        return fail(err, HF_INVALID, "an Idempotency-Key has 1 to 256 characters");
    a->asked.options.key = a->key = text_print("%s:%s", a->req->caller.id, given);
    return HF_OK;
}

static void name_client(acquire *a)
{
    address_of_client(a->req->mhd, a->who, sizeof a->who);
    a->entry.who = *a->req->caller.id ? a->req->caller.id : a->who;
    a->entry.fd = a->req->connection->fd;
}

/* ---- Waiting ---- */

/* The later of the two sees the other's change. */
static void on_gone(void *ctx)
{
    acquire *a = ctx;
    pthread_mutex_lock(&a->mutex);
    a->is_gone = true;
    if (a->wait)
        hf_lease_cancel(a->wait);
    pthread_mutex_unlock(&a->mutex);
}

/* The request may be gone before this returns. */
static void give_back(request *req)
{
    httpd *service = req->service;
    work_again(&service->work, req);
    waits_over(&service->waits);
}

static void keep_lease(acquire *a, const hf_lease *lease)
{
    a->lease = *lease;
    a->lease.previous.who = a->lease.previous_who;
    a->lease.previous.reason = a->lease.previous_reason;
    if (a->lease.previous.done.who)
        a->lease.previous.done.who = a->lease.previous_done_who;
}

/* Taking the mutex waits for hf_lease_begin() to return. */
static void on_done(void *ctx, const hf_lease *lease, const hf_error *err)
{
    acquire *a = ctx;
    pthread_mutex_lock(&a->mutex);
    pthread_mutex_unlock(&a->mutex);
    waits_leave(&a->req->service->waits, &a->entry);
    if (lease)
        keep_lease(a, lease);
    else
        a->err = *err;
    give_back(a->req);
}

static void begin_wait(acquire *a)
{
    request *req = a->req;
    pthread_mutex_lock(&a->mutex);
    hf_code code = hf_lease_begin(req->service->config.client, req->name, &a->asked.options,
                                  on_done, a, &a->wait, &a->err);
    if (!code && a->is_gone)
        hf_lease_cancel(a->wait);
    pthread_mutex_unlock(&a->mutex);
    if (!code)
        return;
    waits_leave(&req->service->waits, &a->entry);
    give_back(req);
}

/* The body is not kept while the request waits: it takes more memory than all else. */
static hf_code read_asked(acquire *a)
{
    request *req = a->req;
    hf_code code = asked_read(&a->asked, req->body, req->body_size, &a->err);
    free(req->body);
    req->body = NULL;
    return code;
}

void acquire_begin(request *req)
{
    acquire *a = req->acquire = text_alloc(sizeof *a);
    a->req = req;
    a->entry.on_gone = on_gone;
    a->entry.ctx = a;
    pthread_mutex_init(&a->mutex, NULL);
    name_client(a);
    hf_code code = read_asked(a);
    if (!code)
        code = read_key(a, &a->err);
    if (!a->asked.options.owner && *req->caller.name)
        a->asked.options.owner = req->caller.name;
    a->asked.options.host = a->who;
    if (!code && a->asked.options.lock.wait_ms != HF_TRY)
        a->entry.lock = req->name;
    if (!code)
        a->let =
            waits_enter(&req->service->waits, &a->entry, req->service->places.of_one[PLACE_WAIT]);
    if (code || a->let != ADMITTED)
        work_again(&req->service->work, req);
    else
        begin_wait(a);
}

void acquire_free(acquire *a)
{
    if (!a)
        return;
    asked_done(&a->asked);
    free(a->key);
    pthread_mutex_destroy(&a->mutex);
    free(a);
}

/* ---- Answering ---- */

static int64_t left_ms(const hf_lease *lease)
{
    return (lease->ends_at_ns - clock_boot_ns()) / 1000000;
}

/* The answer may have waited long for a worker, so the time left is computed now; there must be
 * enough of it to begin with. */
static hf_code refresh(request *req, hf_lease *lease, hf_error *err)
{
    hf_lease renewed = {.ends_at_ns = lease->ends_at_ns};
    hf_code code = HF_OK;
    if (left_ms(lease) < lease->ttl_ms / 2)
        code = hf_lease_renew(req->service->config.client, lease->id, &renewed, err);
    if (!code)
        lease->ends_at_ns = renewed.ends_at_ns;
    lease->left_ms = left_ms(lease);
    if (code == HF_LOST || (code && lease->left_ms <= 0))
        return code;
    return lease->left_ms > 0 ? HF_OK
                              : fail(err, HF_UNKNOWN,
                                     "the lease ran out before it could be "
                                     "answered: ask again");
}

static void answer_granted(request *req, const hf_lease *lease)
{
    hold_times_begin(&req->service->hold_times, lease);
    json_t *out = json_object_new();
    json_put_text(out, "lease", lease->id);
    json_put_token(out, lease->token);
    json_put_number(out, "waited_ms", lease->waited_ms);
    json_put_number(out, "expires_in_ms", lease->left_ms);
    json_put_number(out, "ttl_ms", lease->ttl_ms);
    json_put(out, "previous", json_of_last(&lease->previous));
    answer_json(req, MHD_HTTP_CREATED, out);
}

/* Nobody was told of the lease, and nobody can ask again. */
static void answer_unheard(request *req)
{
    const acquire *a = req->acquire;
    hf_lease_release(req->service->config.client, a->lease.id, NULL);
    answer_code(req, HF_CANCELLED, "the client has hung up");
}

/* Why it was not granted, and who holds it now. */
typedef struct refusal {
    hf_error err;
    json_t *holders;
} refusal;

/* A request behind another one of this service has not seen who holds the lock. */
static void name_holder(hf_error *err, const hf_lock_info *info)
{
    const hf_entry_info *holder = info->holders;
    if (!info->n_holders || !*holder->who || strstr(err->text, holder->who))
        return;
    snprintf(err->text, sizeof err->text, "%.128s was %s: held by %.100s%s%.100s%s", info->name,
             err->code == HF_HELD ? "not free" : hf_code_text(err->code), holder->who,
             *holder->why ? " (" : "", holder->why, *holder->why ? ")" : "");
}

static bool keep_holders(void *ctx, const hf_lock_info *info)
{
    refusal *out = ctx;
    out->holders = json_of_holders(info);
    name_holder(&out->err, info);
    return false;
}

static void answer_held(request *req, const hf_error *err)
{
    refusal out = {.err = *err};
    hf_show(req->service->config.client, req->name, keep_holders, &out, NULL);
    answer_error_with(req, &out.err, "holders", out.holders ? out.holders : json_array_new());
}

static void answer_refused(request *req, const hf_error *err)
{
    if (err->code == HF_CANCELLED && atomic_load(&req->service->is_stopping))
        answer_closed(req);
    else if (err->code == HF_HELD || err->code == HF_TIMEOUT)
        answer_held(req, err);
    else
        answer_error(req, err);
}

void answer_acquire(request *req)
{
    acquire *a = req->acquire;
    bool is_granted = !a->err.code;
    if (a->let != ADMITTED) {
        places_refuse(req, PLACE_WAIT, a->let);
        return;
    }
    if (a->wait)
        metrics_wait(&req->service->metrics, is_granted, clock_now_us() - req->began_us);
    if (!is_granted)
        answer_refused(req, &a->err);
    else if (a->is_gone && !a->key && !atomic_load(&req->service->is_stopping))
        answer_unheard(req);
    else if (refresh(req, &a->lease, &a->err))
        answer_error(req, &a->err);
    else
        answer_granted(req, &a->lease);
}
