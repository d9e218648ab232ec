/* SPDX-License-Identifier: Apache-2.0 */
/* test_notify.c: proves that what a record tells survives being written and read, and that rubbish
 * ends it; run by ctest. */
#include "unit.h"

#include "core/id.h"
#include "core/notify.h"

static void test_written_and_read_back(void **state)
{
    (void)state;
    const notify_note notes[] = {
        {NOTE_GRANT, id_of(1), id_of(2), INT64_C(9007199254740991), HF_BLOCK_MAX},
        {NOTE_RECALL, id_of(3), id_of(4), 0, 0},
        {NOTE_GRANT, id_of(5), id_of(6), 1, 0},
        {NOTE_LOOK, id_of(7), id_of(8), 0, 0},
        {NOTE_GRANT, id_of(9), id_of(10), 2, 3}};
    char text[5 * NOTE_SIZE] = "";
    for (int i = 0; i < 5; i++)
        notify_append(text, &notes[i]);
    const char *at = text;
    notify_note note;
    for (int i = 0; i < 5; i++) {
        assert_true(notify_next(&at, &note));
        assert_int_equal(note.kind, notes[i].kind);
        assert_true(id_equal(note.session, notes[i].session));
        assert_true(id_equal(note.ticket, notes[i].ticket));
        assert_true(note.token == notes[i].token);
        assert_int_equal(note.block, notes[i].block);
    }
    assert_false(notify_next(&at, &note));
}

static void test_rubbish_ends_it(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "x",
        "0001abcdef109900000000ff",
        "0001abcdef109900000000ff:0001abcdef109900000000ff",
        "0001abcdef109900000000ff:0001abcdef109900000000ff:",
        "0001abcdef109900000000ff:0001abcdef109900000000ff:-4",
        "0001abcdef109900000000ff:recall:",
        "0001abcdef109900000000ff:recall:0001abcdef10990000000",
        "0001abcdef109900000000ff:look:",
        "0001abcdef109900000000ff:see:0001abcdef109900000000ff",
        "0001abcdef109900000000ff 0001abcdef109900000000ff:5",
    };
    notify_note note;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *at = texts[i];
        assert_false(notify_next(&at, &note));
    }
    const char *none = NULL;
    assert_false(notify_next(&none, &note));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_and_read_back),
        cmocka_unit_test(test_rubbish_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
