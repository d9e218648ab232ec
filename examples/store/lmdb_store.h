/* SPDX-License-Identifier: Apache-2.0 */
/* lmdb_store.h: Holdfast's locks in an LMDB environment: "lmdb:FOLDER", for the processes of one
 * host. An example of a store outside the library; see docs/stores.md. */
#ifndef LMDB_STORE_H
#define LMDB_STORE_H

#include <holdfast/store.h>

/* Makes "lmdb:FOLDER" known to hf_open(); once in a process. */
hf_code lmdb_store_register(hf_error *err);

/* The same, by the name that holdfast-conformance looks up in a shared object. */
hf_code holdfast_store(hf_error *err);

#endif
