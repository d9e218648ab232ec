/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: runs every case that the store under test declares to be able to: `conformance memory:`,
 * `conformance sqlite:` (a file of its own), `conformance mongodb` (a database of its own on
 * HOLDFAST_TEST_URI; `mongodb:hfProtocol=ttl` for another protocol); or a store from a shared
 * object, at a URI of its own that nobody else uses. A second argument runs only the cases whose
 * name has it in; --but leaves out those whose name has that in. */
#include "conformance/bed.h"

static int run_all(void)
{
    int failed = run_step_cases() + run_session_cases() + run_client_cases() + run_wait_cases() +
                 run_lost_cases();
    failed += run_process_cases() + run_period_cases() + run_dog_cases() + run_change_cases() +
              run_deadlock_cases() + run_together_cases() + run_lease_cases();
    failed += run_history_cases();
    if (!(bed.can & HF_CAN_QUEUE))
        failed += run_plain_lease_cases();
    if (strstr(bed.uri, "hfProtocol=ttl"))
        failed += run_ttl_cases();
    if (strstr(bed.uri, "hfProtocol=document") && !strstr(bed.uri, "hfElement"))
        failed += run_document_cases();
    if (bed.is_mongo && bed.can & HF_CAN_QUEUE)
        failed += run_mongo_cases() + run_wire_cases() + run_batch_cases();
    if (bed.expires)
        failed += run_sharding_cases();
    return failed;
}

static const char usage[] =
    "usage: conformance [--but CASES] memory:|sqlite:|mongodb[:KEYS] [CASES]\n"
    "       conformance [--but CASES] --load FILE.so [--names-up-to BYTES] SCHEME:REST [CASES]\n";

static void leave_out(const char *cases)
{
    static char pattern[256];
    snprintf(pattern, sizeof pattern, "*%s*", cases);
    cmocka_set_skip_filter(pattern);
}

/* Takes the options, and moves the rest of the words to the front. */
static bool read_options(int *argc, char **argv)
{
    int at = 1;
    for (; at + 1 < *argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        if (strcmp(argv[at], "--load") == 0)
            plugin_load(argv[at + 1]);
        else if (strcmp(argv[at], "--names-up-to") == 0)
            bed.name_most = (size_t)strtoul(argv[at + 1], NULL, 10);
        else if (strcmp(argv[at], "--but") == 0)
            leave_out(argv[at + 1]);
        else
            return false;
    }
    for (int i = at; i < *argc; i++)
        argv[i - at + 1] = argv[i];
    *argc -= at - 1;
    return *argc > 1 && argv[1][0] != '-' && bed.name_most <= HF_NAME_MAX && bed.name_most > 64;
}

int main(int argc, char **argv)
{
    bed.name_most = HF_NAME_MAX;
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        plugin_load_again();
        return child_main(argv + 2);
    }
    if (!read_options(&argc, argv)) {
        fputs(usage, stderr);
        return 64;
    }
    char pattern[256];
    snprintf(pattern, sizeof pattern, "*%s*", argc > 2 ? argv[2] : "");
    cmocka_set_test_filter(pattern);
    bed_begin(argv[1]);
    int failed = run_all();
    bed_end();
    print_message("%s: %d failed\n", argv[1], failed);
    return failed > 0;
}
