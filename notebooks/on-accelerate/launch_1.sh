#!/usr/bin/env bash
# Run on machine 1 of 4, in this folder on a volume that all machines mount: MAIN=address-of-machine-0 ./launch_1.sh
set -euo pipefail
cd "$(dirname "$0")"
MAIN=${MAIN:-machine-0} PORT=${PORT:-29500}
for attempt in $(seq 120); do
  if (exec 3<>"/dev/tcp/$MAIN/$PORT") 2>/dev/null; then break; fi
  if [ "$attempt" -eq 1 ]; then echo "waiting for $MAIN:$PORT (start launch_0.sh there)"; fi
  if [ "$attempt" -eq 120 ]; then
    echo "$MAIN:$PORT does not answer: is launch_0.sh running there, and does a firewall close the port?" >&2
    exit 1
  fi
  sleep 2
done
exec accelerate launch --config_file accelerate_1.yaml --main_process_ip "$MAIN" --main_process_port "$PORT" train.py
