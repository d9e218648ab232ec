/* SPDX-License-Identifier: Apache-2.0 */
/* share.h: files for all users of a folder. */
#ifndef STORE_SQLITE_SHARE_H
#define STORE_SQLITE_SHARE_H

/* Where the folder's group may write and owns what is made there (mode 2770), gives it the right to
 * read and write this file, if the file is this user's. */
void sqlite_share(const char *path);

#endif
