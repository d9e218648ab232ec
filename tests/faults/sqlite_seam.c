/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_seam.c: our calls to SQLite come here by the linker (--wrap), SQLite's own by a VFS around
 * the default one and by SQLITE_CONFIG_MALLOC. */
#include "faults/sqlite_seam.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static seam_fault fault;
static atomic_bool is_armed;
static atomic_int counted, failed;

void seam_arm(const seam_fault *armed)
{
    fault = *armed;
    counted = failed = 0;
    is_armed = true;
}

int seam_lift(void)
{
    is_armed = false;
    return failed;
}

int seam_count(void)
{
    return counted;
}

static int begins_left;
static void (*meanwhile)(void);

void seam_meanwhile(int nth, void (*others)(void))
{
    begins_left = nth;
    meanwhile = others;
}

static void see_begin(const char *text)
{
    if (begins_left > 0 && strcmp(text, "BEGIN IMMEDIATE") == 0 && --begins_left == 0)
        meanwhile();
}

static bool fails(seam at)
{
    if (!is_armed || fault.seam != at)
        return false;
    int n = atomic_fetch_add(&counted, 1) + 1;
    bool does = fault.once ? n == fault.nth : n >= fault.nth;
    failed += does;
    if (does == (fault.os >= 0))
        errno = abs(fault.os);
    return does;
}

/* ---- Our calls ---- */

int __real_sqlite3_open_v2(const char *path, sqlite3 **db, int flags, const char *vfs);
int __real_sqlite3_prepare_v2(sqlite3 *db, const char *text, int size, sqlite3_stmt **out,
                              const char **tail);
int __real_sqlite3_prepare_v3(sqlite3 *db, const char *text, int size, unsigned flags,
                              sqlite3_stmt **out, const char **tail);
int __real_sqlite3_step(sqlite3_stmt *statement);

int __wrap_sqlite3_open_v2(const char *path, sqlite3 **db, int flags, const char *vfs);
int __wrap_sqlite3_prepare_v2(sqlite3 *db, const char *text, int size, sqlite3_stmt **out,
                              const char **tail);
int __wrap_sqlite3_prepare_v3(sqlite3 *db, const char *text, int size, unsigned flags,
                              sqlite3_stmt **out, const char **tail);
int __wrap_sqlite3_step(sqlite3_stmt *statement);

int __wrap_sqlite3_open_v2(const char *path, sqlite3 **db, int flags, const char *vfs)
{
    int rc = __real_sqlite3_open_v2(path, db, flags, vfs); /* it gives a handle in any case */
    return fails(SEAM_CALLS) ? fault.code : rc;
}

int __wrap_sqlite3_prepare_v2(sqlite3 *db, const char *text, int size, sqlite3_stmt **out,
                              const char **tail)
{
    *out = NULL;
    return fails(SEAM_CALLS) ? fault.code : __real_sqlite3_prepare_v2(db, text, size, out, tail);
}

int __wrap_sqlite3_prepare_v3(sqlite3 *db, const char *text, int size, unsigned flags,
                              sqlite3_stmt **out, const char **tail)
{
    *out = NULL;
    return fails(SEAM_CALLS) ? fault.code
                             : __real_sqlite3_prepare_v3(db, text, size, flags, out, tail);
}

int __wrap_sqlite3_step(sqlite3_stmt *statement)
{
    const char *text = sqlite3_sql(statement);
    bool commits = strcmp(text, "COMMIT") == 0;
    see_begin(text);
    if (strcmp(text, "ROLLBACK") != 0 && fails(SEAM_CALLS)) /* SQLite never refuses that one */
        return fault.code;
    int rc = __real_sqlite3_step(statement);
    return commits && fails(SEAM_COMMITS) ? SQLITE_IOERR_FSYNC : rc;
}

/* ---- Files ---- */

typedef struct seam_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind it */
} seam_file;

static sqlite3_vfs vfs, *real_vfs;

static sqlite3_file *real(sqlite3_file *file)
{
    return ((seam_file *)file)->real;
}

/* Defines a method that fails with `code`. */
#define METHOD(name, parameters, arguments, code)                                                  \
    static int name parameters                                                                     \
    {                                                                                              \
        return fails(SEAM_FILES) ? code : real(file)->pMethods->name arguments;                    \
    }

/* Busy for good would be waited for each time. */
#define BUSY_OR(code) (fault.once ? SQLITE_BUSY : (code))

METHOD(xRead, (sqlite3_file * file, void *to, int n, sqlite3_int64 at), (real(file), to, n, at),
       SQLITE_IOERR_READ)
METHOD(xWrite, (sqlite3_file * file, const void *from, int n, sqlite3_int64 at),
       (real(file), from, n, at), fault.nth % 2 ? SQLITE_FULL : SQLITE_IOERR_WRITE)
METHOD(xTruncate, (sqlite3_file * file, sqlite3_int64 size), (real(file), size),
       SQLITE_IOERR_TRUNCATE)
METHOD(xFileSize, (sqlite3_file * file, sqlite3_int64 *size), (real(file), size),
       SQLITE_IOERR_FSTAT)
METHOD(xLock, (sqlite3_file * file, int level), (real(file), level), BUSY_OR(SQLITE_IOERR_LOCK))
METHOD(xCheckReservedLock, (sqlite3_file * file, int *out), (real(file), out),
       SQLITE_IOERR_CHECKRESERVEDLOCK)
METHOD(xShmMap, (sqlite3_file * file, int region, int size, int extend, void volatile **out),
       (real(file), region, size, extend, out), SQLITE_IOERR_SHMMAP)

/* No machine loses its power here, and a sync takes long. */
static int xSync(sqlite3_file *file, int flags)
{
    (void)file, (void)flags;
    return fails(SEAM_FILES) ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static int xShmLock(sqlite3_file *file, int offset, int n, int flags)
{
    if (flags & SQLITE_SHM_LOCK && fails(SEAM_FILES))
        return BUSY_OR(SQLITE_IOERR_SHMLOCK);
    return real(file)->pMethods->xShmLock(real(file), offset, n, flags);
}

static int xClose(sqlite3_file *file)
{
    return real(file)->pMethods->xClose(real(file));
}

static int xUnlock(sqlite3_file *file, int level)
{
    return real(file)->pMethods->xUnlock(real(file), level);
}

static int xFileControl(sqlite3_file *file, int op, void *arg)
{
    return real(file)->pMethods->xFileControl(real(file), op, arg);
}

static int xSectorSize(sqlite3_file *file)
{
    return real(file)->pMethods->xSectorSize(real(file));
}

static int xDeviceCharacteristics(sqlite3_file *file)
{
    return real(file)->pMethods->xDeviceCharacteristics(real(file));
}

static void xShmBarrier(sqlite3_file *file)
{
    real(file)->pMethods->xShmBarrier(real(file));
}

static int xShmUnmap(sqlite3_file *file, int removes)
{
    return real(file)->pMethods->xShmUnmap(real(file), removes);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = xClose,
    .xRead = xRead,
    .xWrite = xWrite,
    .xTruncate = xTruncate,
    .xSync = xSync,
    .xFileSize = xFileSize,
    .xLock = xLock,
    .xUnlock = xUnlock,
    .xCheckReservedLock = xCheckReservedLock,
    .xFileControl = xFileControl,
    .xSectorSize = xSectorSize,
    .xDeviceCharacteristics = xDeviceCharacteristics,
    .xShmMap = xShmMap,
    .xShmLock = xShmLock,
    .xShmBarrier = xShmBarrier,
    .xShmUnmap = xShmUnmap,
};

static int open_file(sqlite3_vfs *of, const char *name, sqlite3_file *file, int flags, int *out)
{
    (void)of;
    seam_file *opened = (seam_file *)file;
    opened->base.pMethods = NULL;
    opened->real = (sqlite3_file *)(opened + 1);
    if (fails(SEAM_FILES))
        return SQLITE_CANTOPEN;
    int rc = real_vfs->xOpen(real_vfs, name, opened->real, flags, out);
    if (rc == SQLITE_OK)
        opened->base.pMethods = &methods;
    return rc;
}

static int delete_file(sqlite3_vfs *of, const char *name, int sync)
{
    (void)of;
    return fails(SEAM_FILES) ? SQLITE_IOERR_DELETE : real_vfs->xDelete(real_vfs, name, sync);
}

static int access_file(sqlite3_vfs *of, const char *name, int flags, int *out)
{
    (void)of;
    return fails(SEAM_FILES) ? SQLITE_IOERR_ACCESS : real_vfs->xAccess(real_vfs, name, flags, out);
}

static void install_vfs(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    vfs = *real_vfs;
    vfs.szOsFile += (int)sizeof(seam_file);
    vfs.zName = "seam";
    vfs.pNext = NULL;
    vfs.xOpen = open_file;
    vfs.xDelete = delete_file;
    vfs.xAccess = access_file;
    sqlite3_vfs_register(&vfs, 1);
}

/* ---- Memory ---- */

static sqlite3_mem_methods real_memory;

static void *allocate(int size)
{
    return fails(SEAM_MEMORY) ? NULL : real_memory.xMalloc(size);
}

static void *reallocate(void *old, int size)
{
    return fails(SEAM_MEMORY) ? NULL : real_memory.xRealloc(old, size);
}

static void install_memory(void)
{
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory);
    sqlite3_mem_methods memory = real_memory;
    memory.xMalloc = allocate;
    memory.xRealloc = reallocate;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &memory);
}

void seam_install(void)
{
    install_memory();
    sqlite3_initialize();
    install_vfs();
}
