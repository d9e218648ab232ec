/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_name.c: a name is taken or refused with a text; what is taken is what libbson, which judges
 * UTF-8 on its own, would store. */
#include "core/text.h"
#include "core/utf8.h"
#include "fuzz.h"

#include <bson/bson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hf_error err = {.code = HF_OK};
    char *name = fuzz_text(data, size);
    size_t length = strlen(name);
    bool is_utf8 = bson_utf8_validate(name, length, false);
    bool is_name = length >= 1 && length <= HF_NAME_MAX && is_utf8;
    hf_code code = text_check_name(name, &err);
    MUST(utf8_is_valid(name) == is_utf8);
    MUST(code == (is_name ? HF_OK : HF_INVALID));
    MUST(!code || (err.code == code && err.text[0] && utf8_is_valid(err.text)));
    code = text_check("the reason", name, HF_ACTOR_MAX, &err);
    MUST(code == (length <= HF_ACTOR_MAX && is_utf8 ? HF_OK : HF_INVALID));
    MUST(!code || utf8_is_valid(err.text));
    free(name);
    return 0;
}
