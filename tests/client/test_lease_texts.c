/* SPDX-License-Identifier: Apache-2.0 */
/* test_lease_texts.c: texts of leases: ids that are none, and what is told of the holder before.
 * Run by ctest. */
#include "client/client_bed.h"

#include "core/id.h"

/* The name is a good one before it is read, so only what was read can make it a bad one. */
static hf_code read_id(const char *id)
{
    hf_error err;
    lease_ids ids = {.name = "x"};
    return lease_id_read(id, &ids, &err);
}

static void test_what_is_no_id(void **state)
{
    (void)state;
    char id[HF_LEASE_ID_SIZE];
    hf_client *client = open_client("memory:ids", 10000);
    lease_ids ids = {.name = "lock"};
    lease_id_make(client, NULL, &ids, id);
    assert_int_equal(read_id(id), HF_OK);
    char *dash = strchr(id, '-');
    assert_non_null(dash);
    *dash = '+';
    assert_int_equal(read_id(id), HF_INVALID);
    *dash = '\0';
    assert_int_equal(read_id(id), HF_INVALID);
    *dash = '-';
    id[0] = 'g';
    assert_int_equal(read_id(id), HF_INVALID);
    assert_int_equal(read_id(""), HF_INVALID);
    assert_int_equal(read_id(NULL), HF_INVALID);
    hf_close(client);
}

/* All programs, of all versions, must find the same lease by a name and a key. */
static void test_a_key_always_gives_the_same_id(void **state)
{
    (void)state;
    char id[HF_LEASE_ID_SIZE], session[ID_TEXT_SIZE], ticket[ID_TEXT_SIZE];
    hf_client *client = open_client("memory:keys", 10000);
    lease_ids ids = {.name = "a lock"};
    lease_id_make(client, "order 7", &ids, id);
    assert_string_equal(id, "8c04a874d28b64715ea765cb67400de8-a~20lock");
    id_write(ids.session, session);
    id_write(ids.ticket, ticket);
    assert_string_equal(session, "2833d36dc56f5823a07ce781");
    assert_string_equal(ticket, "00000000af9812f7b035d426");
    hf_close(client);
}

static void test_long_texts_of_the_holder_before_are_told_whole(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:texts", 10000);
    lease_view view = {.sent = client_now(client), .holder.ttl_ms = 10000};
    hf_lease lease;
    view.session.ttl_ms = 10000;
    memset(view.last.who, 'w', HF_TEXT_MAX);
    memset(view.last.reason, 'r', HF_TEXT_MAX);
    view.last.done.is_known = true;
    memset(view.last.done.who, 'd', HF_TEXT_MAX);
    lease_tell(client, "x", &view, &lease);
    assert_int_equal(strlen(lease.previous.who), HF_TEXT_MAX);
    assert_int_equal(strlen(lease.previous.reason), HF_TEXT_MAX);
    assert_int_equal(strlen(lease.previous.done.who), HF_TEXT_MAX);
    assert_ptr_equal(lease.previous.who, lease.previous_who);
    assert_ptr_equal(lease.previous.reason, lease.previous_reason);
    assert_ptr_equal(lease.previous.done.who, lease.previous_done_who);
    hf_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_id),
        cmocka_unit_test(test_a_key_always_gives_the_same_id),
        cmocka_unit_test(test_long_texts_of_the_holder_before_are_told_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
