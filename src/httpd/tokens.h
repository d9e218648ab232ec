/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.h: the file of access tokens: which caller may do what. */
#ifndef HTTPD_TOKENS_H
#define HTTPD_TOKENS_H

#include <holdfast/holdfast.h>

/* Each role may do what the roles before it may. */
typedef enum role { ROLE_NONE, ROLE_READ, ROLE_USE, ROLE_ADMIN } role;

/* A request's role, and the name of its caller. */
typedef struct caller {
    role role;
    const char *name; /* "" when none was given */
    const char *id;   /* its access token, or the number of a user here; "" when neither is known */
} caller;

typedef struct tokens tokens;

/* Reads a file of lines "ROLE TOKEN [NAME]", ROLE being read, use or admin; a line that is empty or
 * begins with # says nothing. HF_INVALID: what is wrong with it, and where. */
hf_code tokens_read(const char *path, tokens **out, hf_error *err);
void tokens_free(tokens *t);

/* Finds the owner of a token; ROLE_NONE: nobody. It takes equally long for every token. The name
 * lives as long as the tokens. */
caller tokens_find(const tokens *t, const char *token);

const char *role_name(role r);

#endif
