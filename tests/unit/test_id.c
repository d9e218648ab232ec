/* SPDX-License-Identifier: Apache-2.0 */
/* test_id.c: proves that ids survive being written and read, and that rubbish is refused; run by
 * ctest. */
#include "unit.h"

#include "core/id.h"

static void test_written_and_read_back(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252ULL;
    for (int i = 0; i < 1000; i++) {
        hf_id id, back;
        for (size_t j = 0; j < sizeof id.bytes; j++)
            id.bytes[j] = (uint8_t)next_random(&random);
        char text[ID_TEXT_SIZE];
        id_write(id, text);
        assert_int_equal(strlen(text), ID_TEXT_SIZE - 1);
        assert_true(id_read(text, &back));
        assert_true(id_equal(id, back));
    }
}

static void test_text_is_plain_hexadecimal(void **state)
{
    (void)state;
    char text[ID_TEXT_SIZE];
    id_write((hf_id){{0x00, 0x01, 0xab, 0xcd, 0xef, 0x10, 0x99, 0, 0, 0, 0, 0xff}}, text);
    assert_string_equal(text, "0001abcdef109900000000ff");
}

static void test_what_follows_is_not_looked_at(void **state)
{
    (void)state;
    hf_id id;
    assert_true(id_read("0001abcdef109900000000ff:more", &id));
    assert_int_equal(id.bytes[11], 0xff);
}

static void test_rubbish_is_refused(void **state)
{
    (void)state;
    hf_id id;
    assert_false(id_read("", &id));
    assert_false(id_read("0", &id));
    assert_false(id_read("0001abcdef109900000000f", &id));
    assert_false(id_read("0001ABCDEF109900000000FF", &id));
    assert_false(id_read("0001abcdef1099000000 0ff", &id));
    assert_false(id_read("0001abcdef109900000000fg", &id));
}

static void test_equal_and_zero(void **state)
{
    (void)state;
    hf_id last = {{0}};
    last.bytes[11] = 1;
    assert_true(id_is_zero((hf_id){{0}}));
    assert_false(id_is_zero(last));
    assert_false(id_equal(last, (hf_id){{0}}));
    assert_true(id_equal(id_of(7), id_of(7)));
}

/* Known values of FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/: other programs' ids depend on
 * them staying what they are. */
static void test_hash_is_fnv_1a(void **state)
{
    (void)state;
    assert_true(id_hash(ID_HASH, "", 0) == 0xcbf29ce484222325ULL);
    assert_true(id_hash(ID_HASH, "a", 1) == 0xaf63dc4c8601ec8cULL);
    assert_true(id_hash(ID_HASH, "foobar", 6) == 0x85944171f73967e8ULL);
    assert_true(id_hash(id_hash(ID_HASH, "foo", 3), "bar", 3) == 0x85944171f73967e8ULL);
    assert_true(id_equal(id_of_hash(1), id_of_hash(1)));
    assert_false(id_equal(id_of_hash(1), id_of_hash(2)));
    static const hf_id little_endian = {{0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1}};
    assert_true(id_equal(id_of_hash(0x0102030405060708), little_endian));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_and_read_back),
        cmocka_unit_test(test_text_is_plain_hexadecimal),
        cmocka_unit_test(test_what_follows_is_not_looked_at),
        cmocka_unit_test(test_rubbish_is_refused),
        cmocka_unit_test(test_equal_and_zero),
        cmocka_unit_test(test_hash_is_fnv_1a),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
