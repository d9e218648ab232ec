#!/bin/sh
# report.sh COMMAND...: runs a command under the lock "report", with nothing but curl. The locks are
# those of `holdfast serve` at HOLDFAST_URL. 75: it was not had, as curl says why.
# A command that takes longer than the lease, ten minutes, wants `curl -X PUT` of it in between.
# SPDX-License-Identifier: Apache-2.0
set -eu
url=${HOLDFAST_URL:-http://127.0.0.1:8430}

# Of the answer itself, not of what it says of the holder before.
field() { sed -n "s/^{[^{]*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }

trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# In the background, so that a signal ends the wait: a request that hangs up leaves the queue.
answer=$(mktemp)
curl -fsS --retry 3 -H 'Content-Type: application/json' \
    -H "Idempotency-Key: $(cat /proc/sys/kernel/random/uuid)" \
    -d '{"wait_ms": 30000, "ttl_ms": 600000, "why": "report.sh"}' "$url/v1/locks/report" >"$answer" &
trap 'kill $! 2>/dev/null || true; rm "$answer"' EXIT
wait $! || exit 75
granted=$(cat "$answer")
rm "$answer"
lease=$(echo "$granted" | field lease)
trap 'curl -fsS --retry 3 -X DELETE "$url/v1/leases/$lease"' EXIT

echo "waited $(echo "$granted" | field waited_ms) ms, token $(echo "$granted" | field token)"
"$@"
