#!/bin/sh
# backup.sh FOLDER TARGET: packs a folder, one backup at a time wherever it is started.
# The script takes its own lock: started without one, it starts itself again under `holdfast run`,
# waits in line for at most five minutes, and passes the exit status on: 75, another has it; 76, the
# lock was lost and this was stopped. HOLDFAST_STORE says where the locks are.
# SPDX-License-Identifier: Apache-2.0
set -eu

[ "${HOLDFAST_NAME:-}" = backup ] ||
    exec holdfast run -w 5m --why "backup of $1" backup -- sh "$0" "$@"

# The fencing token rises with each holder. As part of the file's name it keeps one who was stopped
# for too long from writing over what a later one has made.
packed=$2/backup-$HOLDFAST_TOKEN.tar.gz
tar -C "$1" -czf "$packed.part" .
mv "$packed.part" "$packed"
echo "$packed"
