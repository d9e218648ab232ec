/* SPDX-License-Identifier: Apache-2.0 */
/* password.h: the password of a URI, which no text may show. */
#ifndef STORE_MONGO_DRIVER_PASSWORD_H
#define STORE_MONGO_DRIVER_PASSWORD_H

#include <holdfast/holdfast.h>

/* How a user's name and a password are written. */
#define MONGO_PASSWORD_SIGNS "write @ as %40, : as %3A, / as %2F, ? as %3F, # as %23, % as %25"

/* HF_INVALID: they have a sign that is not encoded. */
hf_code mongo_password_check(const char *uri, hf_error *err);
/* Takes out of the driver's message what it quotes, which may be a part of them. */
void mongo_password_hide(char *message);

#endif
