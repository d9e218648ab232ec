/* SPDX-License-Identifier: Apache-2.0 */
/* mongo_seam.c: our calls to libmongoc come here by the linker (--wrap). */
#include "faults/mongo_seam.h"

#include <mongoc/mongoc.h>
#include <stdatomic.h>

static mongo_fault_at fault;
static atomic_bool is_armed;
static atomic_int counted, failed;

void mongo_seam_arm(const mongo_fault_at *armed)
{
    fault = *armed;
    counted = failed = 0;
    is_armed = true;
}

int mongo_seam_lift(void)
{
    is_armed = false;
    return failed;
}

static bool fails(void)
{
    if (!is_armed)
        return false;
    int n = atomic_fetch_add(&counted, 1) + 1;
    bool does = fault.once ? n == fault.nth : n >= fault.nth;
    failed += does;
    return does;
}

/* ---- What a command is told ---- */

static bool fail_of_network(bson_t *reply, bson_error_t *error)
{
    bson_reinit(reply);
    bson_set_error(error, MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_SOCKET, "the seam cut it");
    return false;
}

static bool fail_of_server(bson_t *reply, bson_error_t *error)
{
    bson_reinit(reply);
    BSON_APPEND_INT32(reply, "ok", 0);
    BSON_APPEND_INT32(reply, "code", fault.code);
    BSON_APPEND_UTF8(reply, "errmsg", "the seam refused it");
    bson_set_error(error, MONGOC_ERROR_SERVER, (uint32_t)fault.code, "the seam refused it");
    return false;
}

static bool fail_of_concern(bson_t *reply)
{
    bson_t concern;
    BSON_APPEND_DOCUMENT_BEGIN(reply, "writeConcernError", &concern);
    BSON_APPEND_INT32(&concern, "code", 64);
    BSON_APPEND_UTF8(&concern, "errmsg", "the seam waited for it");
    bson_append_document_end(reply, &concern);
    return true;
}

static bool answer_oddly(bson_t *reply)
{
    static const char *const fields[] = {"value",         "cursor",      "n",       "nModified",
                                         "operationTime", "writeErrors", "members", "localTime"};
    bson_reinit(reply);
    BSON_APPEND_INT32(reply, "ok", 1);
    for (size_t i = 0; fault.odd == ODD_TYPES && i < sizeof fields / sizeof fields[0]; i++)
        BSON_APPEND_UTF8(reply, fields[i], "seam");
    return true;
}

static bool is_done(void)
{
    return fault.odd == ODD_UNANSWERED || fault.odd == ODD_CONCERN;
}

/* `ok` says how a command that was done went; one that was not has an empty reply. */
static bool answer(bool ok, bson_t *reply, bson_error_t *error)
{
    switch (fault.odd) {
    case ODD_UNSENT:
    case ODD_UNANSWERED:
        return fail_of_network(reply, error);
    case ODD_SERVER:
        return fail_of_server(reply, error);
    case ODD_CONCERN:
        return ok && fail_of_concern(reply);
    case ODD_EMPTY:
    case ODD_TYPES:
        break;
    }
    return answer_oddly(reply);
}

/* ---- Our calls ---- */

bool __real_mongoc_client_command_simple(mongoc_client_t *client, const char *database,
                                         const bson_t *command, const mongoc_read_prefs_t *prefs,
                                         bson_t *reply, bson_error_t *error);
bool __wrap_mongoc_client_command_simple(mongoc_client_t *client, const char *database,
                                         const bson_t *command, const mongoc_read_prefs_t *prefs,
                                         bson_t *reply, bson_error_t *error);
bool __real_mongoc_client_command_with_opts(mongoc_client_t *client, const char *database,
                                            const bson_t *command, const mongoc_read_prefs_t *prefs,
                                            const bson_t *opts, bson_t *reply, bson_error_t *error);
bool __wrap_mongoc_client_command_with_opts(mongoc_client_t *client, const char *database,
                                            const bson_t *command, const mongoc_read_prefs_t *prefs,
                                            const bson_t *opts, bson_t *reply, bson_error_t *error);
mongoc_client_t *__real_mongoc_client_new_from_uri_with_error(const mongoc_uri_t *uri,
                                                              bson_error_t *error);
mongoc_client_t *__wrap_mongoc_client_new_from_uri_with_error(const mongoc_uri_t *uri,
                                                              bson_error_t *error);
mongoc_server_description_t *__real_mongoc_client_select_server(mongoc_client_t *client,
                                                                bool writes,
                                                                const mongoc_read_prefs_t *prefs,
                                                                bson_error_t *error);
mongoc_server_description_t *__wrap_mongoc_client_select_server(mongoc_client_t *client,
                                                                bool writes,
                                                                const mongoc_read_prefs_t *prefs,
                                                                bson_error_t *error);
mongoc_client_session_t *__real_mongoc_client_start_session(mongoc_client_t *client,
                                                            const mongoc_session_opt_t *opts,
                                                            bson_error_t *error);
mongoc_client_session_t *__wrap_mongoc_client_start_session(mongoc_client_t *client,
                                                            const mongoc_session_opt_t *opts,
                                                            bson_error_t *error);
bool __real_mongoc_cursor_next(mongoc_cursor_t *cursor, const bson_t **doc);
bool __wrap_mongoc_cursor_next(mongoc_cursor_t *cursor, const bson_t **doc);
bool __real_mongoc_cursor_error_document(mongoc_cursor_t *cursor, bson_error_t *error,
                                         const bson_t **reply);
bool __wrap_mongoc_cursor_error_document(mongoc_cursor_t *cursor, bson_error_t *error,
                                         const bson_t **reply);

bool __wrap_mongoc_client_command_simple(mongoc_client_t *client, const char *database,
                                         const bson_t *command, const mongoc_read_prefs_t *prefs,
                                         bson_t *reply, bson_error_t *error)
{
    bool fails_here = fails(), ok = false;
    if (!fails_here || is_done())
        ok = __real_mongoc_client_command_simple(client, database, command, prefs, reply, error);
    else
        bson_init(reply);
    return fails_here ? answer(ok, reply, error) : ok;
}

bool __wrap_mongoc_client_command_with_opts(mongoc_client_t *client, const char *database,
                                            const bson_t *command, const mongoc_read_prefs_t *prefs,
                                            const bson_t *opts, bson_t *reply, bson_error_t *error)
{
    bool fails_here = fails(), ok = false;
    if (!fails_here || is_done())
        ok = __real_mongoc_client_command_with_opts(client, database, command, prefs, opts, reply,
                                                    error);
    else
        bson_init(reply);
    return fails_here ? answer(ok, reply, error) : ok;
}

mongoc_client_t *__wrap_mongoc_client_new_from_uri_with_error(const mongoc_uri_t *uri,
                                                              bson_error_t *error)
{
    if (!fails())
        return __real_mongoc_client_new_from_uri_with_error(uri, error);
    bson_set_error(error, MONGOC_ERROR_CLIENT, MONGOC_ERROR_CLIENT_NOT_READY, "no client: seam");
    return NULL;
}

mongoc_server_description_t *__wrap_mongoc_client_select_server(mongoc_client_t *client,
                                                                bool writes,
                                                                const mongoc_read_prefs_t *prefs,
                                                                bson_error_t *error)
{
    if (!fails())
        return __real_mongoc_client_select_server(client, writes, prefs, error);
    bson_set_error(error, MONGOC_ERROR_SERVER_SELECTION, MONGOC_ERROR_SERVER_SELECTION_FAILURE,
                   "no server: seam");
    return NULL;
}

mongoc_client_session_t *__wrap_mongoc_client_start_session(mongoc_client_t *client,
                                                            const mongoc_session_opt_t *opts,
                                                            bson_error_t *error)
{
    if (!fails())
        return __real_mongoc_client_start_session(client, opts, error);
    bson_set_error(error, MONGOC_ERROR_CLIENT, MONGOC_ERROR_CLIENT_SESSION_FAILURE,
                   "no session: seam");
    return NULL;
}

/* A cursor that ends early says why when it is asked. */
static _Thread_local bool has_cut_cursor;

bool __wrap_mongoc_cursor_next(mongoc_cursor_t *cursor, const bson_t **doc)
{
    has_cut_cursor = fails();
    return !has_cut_cursor && __real_mongoc_cursor_next(cursor, doc);
}

bool __wrap_mongoc_cursor_error_document(mongoc_cursor_t *cursor, bson_error_t *error,
                                         const bson_t **reply)
{
    if (!has_cut_cursor)
        return __real_mongoc_cursor_error_document(cursor, error, reply);
    bson_set_error(error, MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_SOCKET, "the seam cut it");
    *reply = NULL;
    return true;
}
