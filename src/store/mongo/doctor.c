/* SPDX-License-Identifier: Apache-2.0 */
#include "store/mongo/parts.h"
hf_code mongo_doctor(hf_store *base, hf_finding_fn each, void *ctx, hf_error *err)
{
    (void)base;
    (void)each;
    (void)ctx;
    (void)err;
    return HF_OK;
}
