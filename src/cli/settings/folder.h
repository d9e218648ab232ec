/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h: the folders of this user in which the command has files. */
#ifndef HOLDFAST_CLI_FOLDER_H
#define HOLDFAST_CLI_FOLDER_H

/* $VARIABLE/holdfast, or ~/BELOW_HOME/holdfast, in new memory; NULL when nobody has a home. */
char *folder_find(const char *variable, const char *below_home);

/* Makes a folder and those above it; 0, or errno. */
int folder_make(char *path);

#endif
