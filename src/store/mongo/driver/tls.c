/* SPDX-License-Identifier: Apache-2.0 */
/* tls.c: sets up TLS, and checks the files that a URI names for it before anything connects: they
 * do not mend themselves. mongo.c and stream.c call it. */
#include "store/mongo/driver/tls.h"
#include "core/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *text_of(const mongoc_uri_t *uri, const char *option)
{
    return mongoc_uri_get_option_as_utf8(uri, option, NULL);
}

static mongoc_ssl_opt_t options_of(const mongoc_uri_t *uri)
{
    bool trusts_all = mongoc_uri_get_option_as_bool(uri, MONGOC_URI_TLSINSECURE, false);
    return (mongoc_ssl_opt_t){.pem_file = text_of(uri, MONGOC_URI_TLSCERTIFICATEKEYFILE),
                              .pem_pwd = text_of(uri, MONGOC_URI_TLSCERTIFICATEKEYFILEPASSWORD),
                              .ca_file = text_of(uri, MONGOC_URI_TLSCAFILE),
                              .weak_cert_validation = mongoc_uri_get_option_as_bool(
                                  uri, MONGOC_URI_TLSALLOWINVALIDCERTIFICATES, trusts_all),
                              .allow_invalid_hostname = mongoc_uri_get_option_as_bool(
                                  uri, MONGOC_URI_TLSALLOWINVALIDHOSTNAMES, trusts_all)};
}

mongoc_stream_t *mongo_tls_around(mongoc_stream_t *base, const mongoc_uri_t *uri, const char *host)
{
    mongoc_ssl_opt_t options = options_of(uri);
    return mongoc_stream_tls_new_with_hostname(base, host, &options, 1);
}

/* ---- Checking ---- */

/* What a file in PEM has. */
typedef struct contents {
    bool has_certificate, has_key, is_encrypted;
} contents;

static hf_code refuse(const char *option, const char *path, const char *why, hf_error *err)
{
    return error_set(err, HF_INVALID, "%s: %.300s cannot be used: %s", option, path, why);
}

static void note(const char *line, contents *out)
{
    bool begins = strstr(line, "-----BEGIN ") != NULL;
    out->has_certificate |= begins && strstr(line, "CERTIFICATE-----");
    out->has_key |= begins && strstr(line, "PRIVATE KEY-----");
    out->is_encrypted |= strstr(line, "ENCRYPTED") != NULL;
}

static void read_lines(FILE *file, contents *out)
{
    char line[256];
    *out = (contents){.has_certificate = false};
    while (fgets(line, sizeof line, file))
        note(line, out);
    fclose(file);
}

/* Opening what is no regular file could wait for ever. */
static hf_code read_contents(const char *option, const char *path, contents *out, hf_error *err)
{
    struct stat is;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return refuse(option, path, strerror(errno), err);
    FILE *file = fstat(fd, &is) == 0 && S_ISREG(is.st_mode) ? fdopen(fd, "r") : NULL;
    if (!file) {
        close(fd);
        return refuse(option, path, "it is no regular file", err);
    }
    read_lines(file, out);
    return HF_OK;
}

static bool can_be_set_up(const mongoc_ssl_opt_t *options)
{
    mongoc_ssl_opt_t copy = *options;
    mongoc_stream_t *base = mongoc_stream_socket_new(mongoc_socket_new(AF_INET, SOCK_STREAM, 0));
    mongoc_stream_t *tls = mongoc_stream_tls_new_with_hostname(base, "localhost", &copy, 1);
    mongoc_stream_destroy(tls ? tls : base);
    return tls != NULL;
}

static hf_code check_authority(const mongoc_ssl_opt_t *options, hf_error *err)
{
    mongoc_ssl_opt_t alone = {.ca_file = options->ca_file};
    contents has;
    hf_code code = read_contents("tlsCAFile", options->ca_file, &has, err);
    if (code)
        return code;
    if (!has.has_certificate || !can_be_set_up(&alone))
        return refuse("tlsCAFile", options->ca_file, "it has no certificate in PEM", err);
    return HF_OK;
}

/* Without a password, OpenSSL would ask for one at the terminal. */
static const char *what_is_wrong(const mongoc_ssl_opt_t *options, const contents *has)
{
    bool has_password = options->pem_pwd && options->pem_pwd[0];
    if (!has->has_certificate)
        return "it has no certificate in PEM; certificate and key are both in this file";
    if (!has->has_key)
        return "it has no private key in PEM; certificate and key are both in this file";
    if (has->is_encrypted && !has_password)
        return "its key has a password: give it as tlsCertificateKeyFilePassword";
    if (can_be_set_up(options))
        return NULL;
    return has->is_encrypted ? "is tlsCertificateKeyFilePassword right, and does the key belong to "
                               "the certificate?"
                             : "its key does not belong to its certificate, or cannot be read";
}

static hf_code check_key(const mongoc_ssl_opt_t *options, hf_error *err)
{
    contents has;
    hf_code code = read_contents("tlsCertificateKeyFile", options->pem_file, &has, err);
    const char *why = code ? NULL : what_is_wrong(options, &has);
    return why ? refuse("tlsCertificateKeyFile", options->pem_file, why, err) : code;
}

hf_code mongo_tls_check(const mongoc_uri_t *uri, hf_error *err)
{
    mongoc_ssl_opt_t options = options_of(uri);
    hf_code code = HF_OK;
    if (!mongoc_uri_get_tls(uri))
        return HF_OK;
    if (options.ca_file)
        code = check_authority(&options, err);
    if (!code && options.pem_file)
        code = check_key(&options, err);
    return code;
}
