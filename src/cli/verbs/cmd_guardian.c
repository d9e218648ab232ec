/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_guardian.c: the verb guardian, which clients start and no listing shows: gives the locks of a
 * process back when that is killed. */
#include <stdlib.h>

#include <holdfast/holdfast.h>

#include "cli/settings/status.h"
#include "cli/terminal/terminal.h"
#include "verbs.h"

int cmd_guardian(settings *given, int argc, char **argv)
{
    (void)given;
    int status = argc == 2 ? hf_guardian(atoi(argv[1])) : STATUS_USAGE;
    if (status == STATUS_USAGE)
        terminal_error(
            "\"guardian\" is not for people: run, elect, acquire and programs that ask for "
            "one start it");
    return status;
}
