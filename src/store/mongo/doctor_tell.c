/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_tell.c: gives the caller what the doctor finds, and asks the servers for it; both other
 * parts of the doctor call it. */
#include "core/lease.h"
#include "store/mongo/doctor_internal.h"
#include "store/mongo/driver/bound.h"
#include "store/mongo/driver/text.h"

#include <stdarg.h>
#include <stdio.h>

static void tell_all(doctor *to, hf_finding finding, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

static void tell_all(doctor *to, hf_finding finding, const char *format, va_list args)
{
    char text[700];
    vsnprintf(text, sizeof text, format, args);
    finding.text = text;
    if (!to->stopped)
        to->stopped = !to->each(to->ctx, &finding);
}

void doctor_tell(doctor *to, const char *topic, bool is_danger, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell_all(to, (hf_finding){.topic = topic, .is_danger = is_danger}, format, args);
    va_end(args);
}

void doctor_advise(doctor *to, const char *topic, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell_all(to, (hf_finding){.topic = topic, .wants_care = true}, format, args);
    va_end(args);
}

void doctor_tell_unknown(doctor *to, const char *topic, const hf_error *why)
{
    doctor_advise(to, topic, "not known: %s", why->text);
}

bool doctor_has_time(doctor *to, const char *topic)
{
    const hf_bound *bound = mongo_bound_now();
    bool is_over = bound && mono_reached(bound->until, mongo_mono(to->store));
    if (is_over && topic)
        doctor_advise(to, topic,
                      "not looked at: answers came so slowly that there was no time left");
    return !is_over;
}

double doctor_mono_ms(const doctor *to)
{
    return (double)mongo_mono(to->store).ns / 1e6;
}

hf_code doctor_ask_admin(mongo_store *store, const char *text, mongo_reply *reply, hf_error *err)
{
    static const mongo_call call = {.what = "asking about the server", .database = "admin"};
    bson_t *command = pipeline_json(text);
    hf_code code = mongo_run(store, &call, command, reply, err);
    bson_destroy(command);
    return code;
}
