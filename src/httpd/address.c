/* SPDX-License-Identifier: Apache-2.0 */
/* address.c: reads where to listen, whether that is within this machine, and listens. */
#include "httpd/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <microhttpd.h>

#include "httpd/fail.h"

#define HOST_SIZE 256
#define LOCAL "unix:"
#define LOCAL_MODE 0660
#define SEND_SIZE 65536 /* what a client that does not read can make the kernel keep */

/* Splits "HOST:PORT", without the brackets around an IPv6 address; port may be NULL. */
static bool split(const char *text, char host[HOST_SIZE], const char **port)
{
    bool has_brackets = *text == '[';
    const char *begin = text + has_brackets;
    const char *end = has_brackets ? strchr(begin, ']') : begin + strcspn(begin, ":");
    if (!end || end - begin >= HOST_SIZE)
        return false;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    end += has_brackets;
    *port = *end == ':' ? end + 1 : NULL;
    return *end == ':' || !*end;
}

static bool is_loopback(const struct sockaddr *sock)
{
    if (sock->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)sock)->sin_addr.s_addr) >> 24 ==
               IN_LOOPBACKNET;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)sock)->sin6_addr);
}

/* getaddrinfo() takes larger ones, and forgets their upper bits. */
static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits && digits <= 5 && !text[digits] && atoi(text) <= 65535;
}

bool address_is_host(const char *text)
{
    char host[HOST_SIZE];
    const char *port;
    return split(text, host, &port) && *host && (!port || !*port || is_port(port));
}

bool address_is_here(const char *text)
{
    char host[HOST_SIZE];
    const char *port;
    struct in_addr four;
    struct in6_addr six;
    if (!split(text, host, &port))
        return false;
    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
    if (inet_pton(AF_INET6, host, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    return strcasecmp(host, "localhost") == 0;
}

static void take(address *out, const struct addrinfo *found)
{
    char host[INET6_ADDRSTRLEN] = "";
    bool is_six = found->ai_family == AF_INET6;
    out->size = found->ai_addrlen;
    memcpy(&out->sock, found->ai_addr, found->ai_addrlen);
    out->is_loopback = is_loopback(found->ai_addr);
    getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof host, out->port, sizeof out->port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(out->host, sizeof out->host, is_six ? "[%s]" : "%s", host);
}

/* ---- Unix sockets ---- */

static struct sockaddr_un *local_of(const address *at)
{
    return (struct sockaddr_un *)(uintptr_t)&at->sock;
}

const char *address_path(const address *at)
{
    return at->sock.ss_family == AF_UNIX ? local_of(at)->sun_path : NULL;
}

static hf_code parse_local(const char *path, address *out, hf_error *err)
{
    *out = (address){.size = sizeof(struct sockaddr_un), .is_loopback = true};
    size_t room = sizeof local_of(out)->sun_path;
    if (!*path || strlen(path) >= room)
        return fail(err, HF_INVALID,
                    "\"" LOCAL "%.200s\": a Unix socket has a path of 1 to %zu bytes", path,
                    room - 1);
    local_of(out)->sun_family = AF_UNIX;
    memcpy(local_of(out)->sun_path, path, strlen(path));
    return HF_OK;
}

/* The socket of a service that died. One that lives would accept, or have no more room. */
static bool is_abandoned(const address *at)
{
    struct stat there;
    if (lstat(address_path(at), &there) || !S_ISSOCK(there.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_refused =
        connect(fd, (const struct sockaddr *)&at->sock, at->size) != 0 && errno == ECONNREFUSED;
    close(fd);
    return is_refused;
}

/* The mode counts when bind() makes the file, so nobody else can connect in between. */
static int bind_local(int fd, const address *at)
{
    if (fchmod(fd, LOCAL_MODE))
        return -1;
    int failed = bind(fd, (const struct sockaddr *)&at->sock, at->size);
    if (failed && errno == EADDRINUSE && is_abandoned(at) && !unlink(address_path(at)))
        failed = bind(fd, (const struct sockaddr *)&at->sock, at->size);
    return failed;
}

/* Which file it is: somebody may remove it, and start another service there. */
static int find_file(address *at)
{
    struct stat there;
    if (lstat(address_path(at), &there))
        return -1;
    at->device = there.st_dev;
    at->inode = there.st_ino;
    return 0;
}

void address_forget(const address *at)
{
    address there = *at;
    if (address_path(at) && !find_file(&there) && there.device == at->device &&
        there.inode == at->inode)
        unlink(address_path(at));
}

/* ---- All ---- */

hf_code address_parse(const char *text, address *out, hf_error *err)
{
    char host[HOST_SIZE];
    const char *port;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found = NULL;
    if (strncmp(text, LOCAL, strlen(LOCAL)) == 0)
        return parse_local(text + strlen(LOCAL), out, err);
    if (!split(text, host, &port) || !*host || !port || !*port)
        return fail(err, HF_INVALID,
                    "\"%.200s\" is no address to listen on; one is 127.0.0.1:8430, [::1]:8430, "
                    "0.0.0.0:8430 for all of this machine, or unix:PATH",
                    text);
    if (!is_port(port))
        return fail(err, HF_INVALID,
                    "\"%.200s\" is no address to listen on: a port is a number from 0 to 65535",
                    text);
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed)
        return fail(err, HF_INVALID, "\"%.200s\" is no address to listen on: %s", text,
                    gai_strerror(failed));
    take(out, found);
    freeaddrinfo(found);
    return HF_OK;
}

static hf_code fail_to_listen(const address *at, hf_error *err)
{
    hf_code code = errno == EACCES ? HF_DENIED : HF_UNUSABLE;
    if (address_path(at))
        return fail(err, code, "cannot listen on " LOCAL "%s: %s; --listen names another",
                    address_path(at), strerror(errno));
    return fail(err, code, "cannot listen on %s, port %s: %s; --listen names another", at->host,
                at->port, strerror(errno));
}

static int port_of(int fd)
{
    struct sockaddr_storage sock = {0};
    socklen_t size = sizeof sock;
    char port[16] = "0";
    getsockname(fd, (struct sockaddr *)&sock, &size);
    getnameinfo((struct sockaddr *)&sock, size, NULL, 0, port, sizeof port, NI_NUMERICSERV);
    return atoi(port);
}

static int bind_to(int fd, address *at)
{
    if (!address_path(at))
        return bind(fd, (const struct sockaddr *)&at->sock, at->size);
    return bind_local(fd, at) ? -1 : find_file(at);
}

hf_code address_listen(address *at, int *fd, int *port, hf_error *err)
{
    int yes = 1, size = SEND_SIZE;
    *fd = socket(at->sock.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return fail_to_listen(at, err);
    setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(*fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    if (bind_to(*fd, at) || listen(*fd, SOMAXCONN)) {
        hf_code code = fail_to_listen(at, err);
        close(*fd);
        return code;
    }
    *port = port_of(*fd);
    return HF_OK;
}

void address_of_client(struct MHD_Connection *mhd, char *out, size_t size)
{
    const struct sockaddr *sock =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    if (sock->sa_family == AF_UNIX) {
        *out = '\0';
        gethostname(out, size - 1);
        return;
    }
    socklen_t length =
        sock->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (getnameinfo(sock, length, out, (socklen_t)size, NULL, 0, NI_NUMERICHOST))
        snprintf(out, size, "?");
}
