/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c: the folders of this user in which the command has files; config.c and options.c call
 * it. */
#include "folder.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "show/text.h"

char *folder_find(const char *variable, const char *below_home)
{
    const char *folder = getenv(variable), *home = getenv("HOME");
    if (folder && *folder == '/')
        return text_print("%s/holdfast", folder);
    const struct passwd *me = home && *home == '/' ? NULL : getpwuid(getuid());
    home = me ? me->pw_dir : home;
    return home && *home == '/' ? text_print("%s/%s/holdfast", home, below_home) : NULL;
}

int folder_make(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int failed = mkdir(path, 0700) && errno != EEXIST ? errno : 0;
        *slash = '/';
        if (failed && failed != EROFS && failed != EACCES)
            return failed; /* those two: what is below may be there all the same */
    }
    return mkdir(path, 0700) && errno != EEXIST ? errno : 0;
}
