/* SPDX-License-Identifier: Apache-2.0 */
/* places.h: how many connections may be taken by what lasts long, so that renewals, releases and
 * all else that is short always find one; and the answer to what finds no place. */
#ifndef HTTPD_PLACES_H
#define HTTPD_PLACES_H

#include <stddef.h>

#include "httpd/httpd.h"

/* Connections beyond the limit, until idle ones have made room for them. */
#define PLACES_SPARE 32

/* What lasts long: requests for locks, which may wait, and event streams. */
typedef enum place_kind { PLACE_WAIT, PLACE_FOLLOWER, N_PLACE_KINDS } place_kind;

/* Whether a request gets a place, or its client has too many, or all clients together have, or the
 * service ends. */
typedef enum admission { ADMITTED, TOO_MANY_OF_ONE, TOO_MANY_OF_ALL, N_REFUSALS, ENDING } admission;

typedef struct places {
    size_t connections;
    size_t of_all[N_PLACE_KINDS]; /* of all clients together */
    size_t of_one[N_PLACE_KINDS]; /* of one */
} places;

/* As the configuration says, and as many as the descriptors that this process may open allow:
 * raises that limit if it must and can, and logs if it is less than was asked for. */
places places_find(const httpd_config *config);

struct request;

/* Answers what found no place with 429 or 503. */
void places_refuse(struct request *req, place_kind kind, admission why);

#endif
