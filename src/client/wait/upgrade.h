/* SPDX-License-Identifier: Apache-2.0 */
/* upgrade.h: from shared to exclusive on one handle. */
#ifndef CLIENT_WAIT_UPGRADE_H
#define CLIENT_WAIT_UPGRADE_H

#include <holdfast/holdfast.h>

/* Called by change_perform(). HF_HELD: somebody is in the way, and the lock is held as before. */
hf_code upgrade_lock(struct hf_lock *lock, hf_error *err);

#endif
