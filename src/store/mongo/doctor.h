/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h: what hf_doctor() asks of the mongo store. */
#ifndef STORE_MONGO_DOCTOR_H
#define STORE_MONGO_DOCTOR_H

#include <holdfast/store.h>

hf_code mongo_doctor(hf_store *base, hf_finding_fn each, void *ctx, hf_error *err);

#endif
