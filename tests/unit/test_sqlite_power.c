/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite_power.c: what a loss of power leaves in the embedded store. SQLite's files come here:
 * each sync keeps a copy of its file, and after a loss of power the copies are what is there. */
#include "sqlite_fixture.h"

#include <fcntl.h>

#define FILES_MAX 32

/* ---- The disk ---- */

static struct {
    sqlite3_file *file;
    char name[sizeof path + 8];
} opened[FILES_MAX];
static size_t n_opened;
static sqlite3_vfs *real, disk;
/* Of databases, which are locked, and of logs. */
static sqlite3_io_methods methods[2];
static const sqlite3_io_methods *real_methods[2];
static int syncs; /* of logs */
static bool syncs_fail;

static const char *kept_of(const char *name)
{
    static char kept[sizeof path + 16];
    snprintf(kept, sizeof kept, "%s.synced", name);
    return kept;
}

static const char *name_of(const sqlite3_file *file)
{
    for (size_t i = n_opened; i > 0; i--)
        if (opened[i - 1].file == file)
            return opened[i - 1].name;
    return "";
}

/* Read through SQLite: closing a description of its own would drop SQLite's locks. */
static void keep(sqlite3_file *file, const sqlite3_io_methods *through, const char *as)
{
    static char bytes[1 << 20];
    sqlite3_int64 size = 0;
    assert_int_equal(through->xFileSize(file, &size), SQLITE_OK);
    assert_true(size <= (sqlite3_int64)sizeof bytes);
    assert_int_equal(through->xRead(file, bytes, (int)size, 0), SQLITE_OK);
    int out = open(as, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(out, bytes, (size_t)size), size);
    close(out);
}

static bool is_log(const char *name)
{
    size_t size = strlen(name);
    return size > 4 && strcmp(name + size - 4, "-wal") == 0;
}

static int sync_file(sqlite3_file *file, int flags)
{
    const char *name = name_of(file);
    if (syncs_fail)
        return SQLITE_IOERR_FSYNC;
    int rc = real_methods[is_log(name)]->xSync(file, flags);
    if (rc == SQLITE_OK && *name)
        keep(file, real_methods[is_log(name)], kept_of(name));
    syncs += is_log(name);
    return rc;
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *out_flags)
{
    (void)vfs;
    int rc = real->xOpen(real, name, file, flags, out_flags);
    if (rc != SQLITE_OK || !(flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)))
        return rc;
    bool kind = is_log(name);
    real_methods[kind] = file->pMethods;
    methods[kind] = *file->pMethods;
    methods[kind].xSync = sync_file;
    file->pMethods = &methods[kind];
    assert_true(n_opened < FILES_MAX);
    opened[n_opened].file = file;
    snprintf(opened[n_opened++].name, sizeof opened[0].name, "%s", name);
    return rc;
}

static int put_disk(void **state)
{
    (void)state;
    real = sqlite3_vfs_find(NULL);
    disk = *real;
    disk.zName = "disk";
    disk.xOpen = open_file;
    return sqlite3_vfs_register(&disk, 1);
}

static int set_up(void **state)
{
    n_opened = 0;
    syncs_fail = false;
    return make_folder(state);
}

static void restore(const char *suffix)
{
    char name[sizeof path + 8];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    unlink(name);
    if (access(kept_of(name), F_OK) == 0)
        copy_file(kept_of(name), name, O_TRUNC);
}

/* Everything stops here, and begins anew on the next boot. */
static hf_store *lose_power(hf_store *store)
{
    store->ops->close(store);
    restore("");
    restore("-wal");
    restore("-shm");
    return open_at("boot-2", "machine");
}

/* ---- What is done before ---- */

static hf_store *store;
static hf_id session, ticket;
static int64_t token;

static void hold(const char *name)
{
    store = open_at("boot-1", "machine");
    session = begin_session(store);
    assert_int_equal(enter(store, name, session, &ticket, &token), RECORD_HOLDS);
}

static hf_code try_step(const char *name, const hf_step *step, hf_step_reply *reply)
{
    hf_parcel parcel = {.name = name, .step = *step};
    store->ops->steps(store, &parcel, 1);
    *reply = parcel.reply;
    return parcel.code;
}

static hf_id begin_lease(void)
{
    hf_error err;
    hf_session self = {.id = new_id(), .ttl_ms = 600000, .app = "test", .host = "here"};
    must(store->ops->session_begin(store, &self, &err), &err);
    return self.id;
}

/* The lease's ticket. */
static hf_id make_lease(const char *name, hf_id lease)
{
    hf_error err;
    hf_step_reply reply;
    hf_pass pass = {
        .ticket = ticket, .to = new_id(), .session = lease, .ttl_ms = 600000, .token = token};
    must(store->ops->step(store, name, &(hf_step){.pass = &pass}, NULL, &reply, &err), &err);
    assert_true(reply.confirmed);
    return pass.to;
}

static int32_t count_holders(const char *name)
{
    hf_record record = read_record(store, name);
    int32_t n = (int32_t)record.holders;
    record_done(&record);
    return n;
}

/* ---- What stays ---- */

static void test_an_id_lease_outlives_a_loss_of_power(void **state)
{
    (void)state;
    hold("a");
    hf_id lease = begin_lease(), to = make_lease("a", lease);
    store = lose_power(store);
    hf_record record = read_record(store, "a");
    assert_non_null(record_find(&record, to));
    record_done(&record);
    assert_int_equal(look_at(store, lease, -1).presence, HF_LIVE);
    assert_false(look_at(store, lease, -1).is_gone);
    store->ops->close(store);
}

static void test_a_lease_that_was_released_stays_released(void **state)
{
    (void)state;
    hold("a");
    hf_id to = make_lease("a", begin_lease());
    leave(store, "a", to);
    store = lose_power(store);
    assert_int_equal(count_holders("a"), 0);
    store->ops->close(store);
}

static hf_leave work_done(void)
{
    hf_leave done = {.ticket = ticket, .outcome = HF_OUTCOME_RELEASED, .told = true};
    done.period = (hf_period){.start = {1000}, .end = {INT64_C(4000000000000)}};
    return done;
}

static void expect_work_done(const char *name)
{
    hf_record record = read_record(store, name);
    assert_int_equal(record.last.outcome, HF_OUTCOME_RELEASED);
    assert_true(period_is_done(work_done().period, &record.last));
    record_done(&record);
}

static void test_work_of_a_period_stays_done(void **state)
{
    (void)state;
    hf_error err;
    hf_step_reply reply;
    hold("a");
    hf_leave done = work_done();
    hf_step step = {.leaves = &done, .n_leaves = 1};
    must(store->ops->step(store, "a", &step, NULL, &reply, &err), &err);
    store = lose_power(store);
    expect_work_done("a");
    store->ops->close(store);
}

static void test_so_does_what_is_released_with_others(void **state)
{
    (void)state;
    hf_step_reply reply;
    hold("a");
    hf_leave done = work_done();
    assert_int_equal(try_step("a", &(hf_step){.leaves = &done, .n_leaves = 1}, &reply), HF_OK);
    store = lose_power(store);
    expect_work_done("a");
    store->ops->close(store);
}

static void test_who_breaks_anothers_lock_may_rely_on_it(void **state)
{
    (void)state;
    hold("a");
    hf_store *other = open_at("boot-1", "machine");
    int before = syncs;
    leave(other, "a", ticket);
    assert_int_equal(syncs, before + 1);
    other->ops->close(other);
    store->ops->close(store);
}

/* Its process is dead after a loss of power, so it is not waited for the disk. */
static void test_a_plain_lock_is_not_synced(void **state)
{
    (void)state;
    hold("a");
    int before = syncs;
    for (int i = 0; i < 10; i++) {
        leave(store, "a", ticket);
        assert_int_equal(enter(store, "a", session, &ticket, &token), RECORD_HOLDS);
    }
    assert_int_equal(syncs, before);
    store->ops->close(store);
}

static void test_what_may_be_undone_is_not_acknowledged(void **state)
{
    (void)state;
    hf_error err;
    hf_step_reply reply;
    hold("a");
    hf_leave done = work_done();
    hf_step step = {.leaves = &done, .n_leaves = 1};
    syncs_fail = true;
    assert_int_equal(store->ops->step(store, "a", &step, NULL, &reply, &err), HF_UNKNOWN);
    assert_non_null(strstr(err.text, "loss of power"));
    assert_int_equal(try_step("a", &step, &reply), HF_UNKNOWN); /* it finds nothing to do */
    syncs_fail = false;
    int before = syncs;
    assert_int_equal(try_step("a", &step, &reply), HF_OK);
    assert_int_equal(syncs, before + 1);
    assert_int_equal(try_step("a", &step, &reply), HF_OK);
    assert_int_equal(syncs, before + 1);
    store = lose_power(store);
    expect_work_done("a");
    store->ops->close(store);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(test_an_id_lease_outlives_a_loss_of_power),
        TEST(test_a_lease_that_was_released_stays_released),
        TEST(test_work_of_a_period_stays_done),
        TEST(test_so_does_what_is_released_with_others),
        TEST(test_who_breaks_anothers_lock_may_rely_on_it),
        TEST(test_a_plain_lock_is_not_synced),
        TEST(test_what_may_be_undone_is_not_acknowledged),
    };
    return cmocka_run_group_tests(tests, put_disk, NULL);
}
