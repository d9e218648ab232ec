/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h: the inside of the client, for tests that look there. */
#ifndef SUPPORT_INSIDE_H
#define SUPPORT_INSIDE_H

#include "client/hold/beat.h"
#include "client/hold/handle.h"
#include "client/hold/hold.h"
#include "client/lease/lease.h"
#include "client/wait/acquire.h"
#include "client/wait/listen.h"

#endif
