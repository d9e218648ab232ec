/* SPDX-License-Identifier: Apache-2.0 */
/* token.h: what both guards ask of a token before they send it. */
#ifndef GUARD_TOKEN_H
#define GUARD_TOKEN_H

#include "core/error.h"

#define TOKEN_MAX ((int64_t)1 << 53)

static inline hf_code guard_check_token(int64_t token, hf_error *err)
{
    if (token > 0 && token < TOKEN_MAX)
        return HF_OK;
    return error_set(err, HF_INVALID,
                     "%lld is no fencing token; take hf_lock_token(), which is 0 in a protocol "
                     "without tokens (hfProtocol=queue has them, document with hfTokenField)",
                     (long long)token);
}

#endif
