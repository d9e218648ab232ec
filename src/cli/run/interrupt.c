/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.c: lets signals fire the cancel of a wait. */
#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

#include "cli/settings/status.h"

static hf_cancel *waiting; /* for the handler: what it fires, and the signal that came */
static volatile sig_atomic_t interrupted;

static void on_signal(int signal)
{
    interrupted = signal;
    hf_cancel_fire(waiting);
}

hf_code interrupt_begin(hf_cancel **out, hf_error *err)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};
    hf_code code = hf_cancel_new(&waiting, err);
    if (code)
        return code;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &action, NULL);
    *out = waiting;
    return HF_OK;
}

int interrupt_signal(void)
{
    return interrupted;
}

int interrupt_status(hf_code code)
{
    return code == HF_CANCELLED && interrupted ? STATUS_SIGNAL + interrupted : hf_code_exit(code);
}
