/* SPDX-License-Identifier: Apache-2.0 */
/* status.h: the command's own exit statuses. */
#ifndef HOLDFAST_CLI_STATUS_H
#define HOLDFAST_CLI_STATUS_H

/* The library's table, hf_code_exit(), has those of its errors. */
enum {
    STATUS_USAGE = 64,
    STATUS_VALUE = 65,
    STATUS_STORE = 69,
    STATUS_INTERNAL = 70,
    STATUS_OUTPUT = 74,
    STATUS_NOT_ACQUIRED = 75,
    STATUS_LOST = 76,
    STATUS_UNSENT = 79, /* the command succeeded, but its release is still to be sent */
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNAL = 128, /* and the signal's number */
};

#endif
