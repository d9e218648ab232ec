/* SPDX-License-Identifier: Apache-2.0 */
/* lease_id.c: writes and reads the ids of leases. The first 16 bytes are a capability: anyone who
 * knows them may release the lock. So the store gets only a hash of them and the lock's name. With
 * another name, the same bytes are the id of another lease. */
#include "client/lease/lease_id.h"

#include "client/base/client.h"

#include "core/error.h"
#include "core/id.h"
#include "core/text.h"

#include <sha256.h>
#include <string.h>

#define SECRET_SIZE 16
#define SECRET_DIGITS (2 * SECRET_SIZE)
#define KEYED 0x80  /* of its first byte */
#define TIME_SIZE 4 /* of an ObjectId; a hash is no time */

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

/* ---- Hashes ---- */

/* Of ids->name. */
static void derive(const uint8_t secret[SECRET_SIZE], lease_ids *ids)
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX hash;
    SHA256Init(&hash);
    SHA256Update(&hash, secret, SECRET_SIZE);
    SHA256Update(&hash, (const uint8_t *)ids->name, strlen(ids->name) + 1);
    SHA256Final(digest, &hash);
    memcpy(ids->session.bytes, digest, sizeof ids->session.bytes);
    memcpy(ids->ticket.bytes, digest + sizeof ids->session.bytes, sizeof ids->ticket.bytes);
    memset(ids->ticket.bytes, 0, TIME_SIZE);
    ids->is_keyed = secret[0] & KEYED;
}

/* Hashes both with their ends, so that no other pair of name and key gives the same hash. */
static void secret_of_key(const char *name, const char *key, uint8_t secret[SECRET_SIZE])
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX hash;
    SHA256Init(&hash);
    SHA256Update(&hash, (const uint8_t *)name, strlen(name) + 1);
    SHA256Update(&hash, (const uint8_t *)key, strlen(key) + 1);
    SHA256Final(digest, &hash);
    memcpy(secret, digest, SECRET_SIZE);
}

/* ---- Text ---- */

static void write_id(const uint8_t secret[SECRET_SIZE], const char *name, char *to)
{
    for (size_t i = 0; i < SECRET_SIZE; i++)
        to = id_write_byte(to, secret[i]);
    *to++ = '-';
    for (; *name; name++) {
        if (strchr(plain, *name)) {
            *to++ = *name;
        } else {
            *to++ = '~';
            to = id_write_byte(to, (uint8_t)*name);
        }
    }
    *to = '\0';
}

void lease_id_make(hf_client *client, const char *key, lease_ids *ids, char id[HF_LEASE_ID_SIZE])
{
    uint8_t secret[SECRET_SIZE];
    if (key)
        secret_of_key(ids->name, key, secret);
    else
        client->env.random(client->env.ctx, secret, sizeof secret);
    secret[0] = (uint8_t)((secret[0] & ~KEYED) | (key ? KEYED : 0));
    derive(secret, ids);
    write_id(secret, ids->name, id);
}

static bool read_name(const char *from, char name[HF_NAME_MAX + 1])
{
    size_t n = 0;
    for (; *from && n < HF_NAME_MAX; n++) {
        int byte = *from == '~' ? id_read_byte(from + 1) : *from;
        if (byte <= 0 || (*from != '~' && !strchr(plain, *from)))
            return false;
        name[n] = (char)byte;
        from += *from == '~' ? 3 : 1;
    }
    name[n] = '\0';
    return n && !*from;
}

static bool read_id(const char *id, uint8_t secret[SECRET_SIZE], char name[HF_NAME_MAX + 1])
{
    if (strnlen(id, HF_LEASE_ID_SIZE) <= SECRET_DIGITS || id[SECRET_DIGITS] != '-')
        return false;
    for (size_t i = 0; i < SECRET_SIZE; i++) {
        int byte = id_read_byte(id + 2 * i);
        if (byte < 0)
            return false;
        secret[i] = (uint8_t)byte;
    }
    return read_name(id + SECRET_DIGITS + 1, name);
}

hf_code lease_id_read(const char *id, lease_ids *ids, hf_error *err)
{
    uint8_t secret[SECRET_SIZE];
    if (!id || !read_id(id, secret, ids->name) || text_check_name(ids->name, NULL))
        return error_set(err, HF_INVALID,
                         "that is not the id of a lease: an id has 32 hexadecimal digits, a '-' "
                         "and the lock's name, as the call that took the lease returned it");
    derive(secret, ids);
    return HF_OK;
}
