/* SPDX-License-Identifier: Apache-2.0 */
/* settle.h: gives back what a client that has ended still has in the store. */
#ifndef CLIENT_GUARDIAN_SETTLE_H
#define CLIENT_GUARDIAN_SETTLE_H

#include "client/guardian/estate.h"

/* One try, through a client of the guardian's own. Takes out of the estate what is settled. HF_OK:
 * no ticket and no leave is left. The process that had the sessions must be gone, or have closed
 * its client, so that nobody believes in their locks (R5). May be repeated at any time. */
hf_code settle(hf_client *client, struct estate *estate, hf_error *err);

#endif
