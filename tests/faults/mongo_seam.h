/* SPDX-License-Identifier: Apache-2.0 */
/* mongo_seam.h: stands between us and libmongoc, counts the calls that talk to a server, and fails
 * the Nth one, once or from then on. */
#ifndef TESTS_FAULTS_MONGO_SEAM_H
#define TESTS_FAULTS_MONGO_SEAM_H

#include <stdbool.h>

/* What a command comes to; other calls just fail. */
typedef enum mongo_odd {
    ODD_UNSENT,     /* a network error; not done */
    ODD_UNANSWERED, /* a network error; done */
    ODD_SERVER,     /* an error of the server, of that code; not done */
    ODD_CONCERN,    /* done, and not acknowledged by a majority */
    ODD_EMPTY,      /* {ok: 1} */
    ODD_TYPES,      /* each field of another type */
} mongo_odd;

typedef struct mongo_fault_at {
    int nth; /* counted from 1 */
    bool once;
    mongo_odd odd;
    int code;
} mongo_fault_at;

void mongo_seam_arm(const mongo_fault_at *fault);
int mongo_seam_lift(void); /* how many have failed */

#endif
