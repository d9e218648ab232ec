/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.c: lets signals fire the cancel of a wait. */
#include "interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>

#include "cli/settings/status.h"

static hf_cancel *waiting; /* for the handler: what it fires, and the signal that came */
static pid_t deputy;       /* the process that waits instead of this one; 0: none does */
static volatile sig_atomic_t interrupted;
static int came = -1; /* an eventfd, which the handler writes to */

static void on_signal(int signal)
{
    int saved = errno;
    interrupted = signal;
    eventfd_write(came, 1);
    if (deputy)
        kill(deputy, signal);
    else
        hf_cancel_fire(waiting);
    errno = saved;
}

/* A signal that was ignored when the program was started, as under nohup(1), stays ignored. */
static void heed(int signal)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    if (!sigaction(signal, NULL, &before) && before.sa_handler != SIG_IGN)
        sigaction(signal, &action, NULL);
}

static void heed_all(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        heed(signals[i]);
}

hf_code interrupt_begin(hf_cancel **out, hf_error *err)
{
    hf_code code = hf_cancel_new(&waiting, err);
    if (code)
        return code;
    came = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    heed_all();
    *out = waiting;
    return HF_OK;
}

void interrupt_pass_on(pid_t to)
{
    deputy = to;
    heed_all();
}

int interrupt_signal(void)
{
    return interrupted;
}

int interrupt_fd(void)
{
    return came;
}

int interrupt_status(hf_code code)
{
    return code == HF_CANCELLED && interrupted ? STATUS_SIGNAL + interrupted : hf_code_exit(code);
}
