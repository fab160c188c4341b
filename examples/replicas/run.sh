#!/usr/bin/env bash
# Starts Redis, three replicas of the demo server and nginx on loopback, and stops them again.
#
#   ./run.sh                    runs until Ctrl-C
#   ./run.sh COMMAND ARGS…      runs a command with the address in $URL, then stops everything
#
# It needs redis-server and nginx. TSUGITE, TSUGITE_REDIS_SERVER and TSUGITE_NGINX name programs that are elsewhere, and
# PORT the first of five ports: nginx, three replicas, Redis.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
port=${PORT:-8808}
redis_port=$((port + 4))
folder=$(mktemp -d)
pids=()

stop() {
    trap - EXIT
    # The newest first: nginx, so that no request meets a replica that has stopped. SIGTERM lets calls finish.
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        kill "${pids[i]}" 2>/dev/null || true
        wait "${pids[i]}" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Waits until the port of the newest process answers.
wait_for() {
    for _ in {1..200}; do
        if ! kill -0 "${pids[-1]}" 2>/dev/null; then break; fi
        if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
        sleep 0.05
    done
    echo "error: nothing listens on port $1" >&2
    exit 1
}

if [ -z "${TSUGITE:-}" ]; then
    cargo build --release --locked --manifest-path "$here/../../Cargo.toml" --package tsugite-cli
    TSUGITE=$here/../../target/release/tsugite
fi

# What replicas share is sealed with a key that all of them have. This one ends with the script.
TSUGITE_SEAL_KEYS=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export TSUGITE_SEAL_KEYS

"${TSUGITE_REDIS_SERVER:-redis-server}" --port "$redis_port" --bind 127.0.0.1 --save '' --appendonly no \
    --dir "$folder" --logfile "$folder/redis.txt" &
pids+=($!)
wait_for "$redis_port"

for number in 1 2 3; do
    "$TSUGITE" serve --listen "127.0.0.1:$((port + number))" --state "redis://127.0.0.1:$redis_port" >/dev/null &
    pids+=($!)
    wait_for "$((port + number))"
done

# Without a master process, so that the id of the process is that of all of nginx.
sed -e "s/@PORT@/$port/" -e "s/@FIRST@/$((port + 1))/" -e "s/@SECOND@/$((port + 2))/" -e "s/@THIRD@/$((port + 3))/" \
    "$here/nginx.conf" >"$folder/nginx.conf"
"${TSUGITE_NGINX:-nginx}" -p "$folder" -c "$folder/nginx.conf" -e "$folder/nginx.txt" \
    -g 'daemon off; master_process off; pid nginx.pid;' &
pids+=($!)
wait_for "$port"

export URL="http://127.0.0.1:$port/mcp"
if [ $# -gt 0 ]; then
    "$@"
else
    echo "$URL reaches three replicas; Ctrl-C stops them"
    wait "${pids[-1]}"
fi
