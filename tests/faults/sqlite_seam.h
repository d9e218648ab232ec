/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_seam.h: stands between us and SQLite, and between SQLite and the machine, counts the calls
 * and fails the Nth one, once or from then on. */
#ifndef TESTS_FAULTS_SQLITE_SEAM_H
#define TESTS_FAULTS_SQLITE_SEAM_H

#include <stdbool.h>

typedef enum seam {
    SEAM_CALLS,   /* ours to SQLite: open, prepare, step; what fails was not done */
    SEAM_COMMITS, /* of those, the commits only; what fails with SQLITE_IOERR_FSYNC was done */
    SEAM_FILES,   /* SQLite's to the file system */
    SEAM_MEMORY,  /* SQLite's to malloc */
    SEAMS
} seam;

typedef struct seam_fault {
    seam seam;
    int nth;   /* the first that fails, counted from 1 */
    bool once; /* or all from then on */
    int code;  /* of SQLite, for calls; the other seams know their own */
    int os;    /* errno, beside that; negative: what the calls before left there */
} seam_fault;

/* Before the first use of SQLite. */
void seam_install(void);

void seam_arm(const seam_fault *fault);

/* From here on nothing fails. Returns how many calls have failed. */
int seam_lift(void);

/* Right before the Nth BEGIN IMMEDIATE from here on, once, that is called: what others do between
 * the look at something and the change of it. 0: no more. */
void seam_meanwhile(int nth, void (*others)(void));

/* How many calls went through the seam that was armed. */
int seam_count(void);

#endif
