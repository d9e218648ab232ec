/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_guardian.c: a message to a guardian is read whole or refused; what was read is written again
 * as the same bytes; and no sequence of messages harms the estate. The input is messages, each
 * behind its length in one byte. */
#include "client/guardian/estate.h"
#include "fuzz.h"

static void heed(struct estate *estate, const char *bytes, size_t n)
{
    static char again[GUARDIAN_MESSAGE_MAX];
    guardian_message message;
    if (!guardian_message_read(bytes, n, &message))
        return;
    MUST(guardian_message_write(&message, again) == n);
    MUST(memcmp(again, bytes, n) == 0);
    MUST(strlen(message.name) <= HF_NAME_MAX);
    estate_note(estate, &message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct estate estate = {.uri = NULL};
    for (size_t at = 0; at < size;) {
        size_t n = data[at++];
        n = n < size - at ? n : size - at;
        char *bytes = fuzz_text(data + at, n); /* of its own, so that a read behind it is seen */
        heed(&estate, bytes, n);
        free(bytes);
        at += n;
    }
    MUST(estate.n_leaves + estate.n_tickets <= size);
    estate_done(&estate);
    return 0;
}
