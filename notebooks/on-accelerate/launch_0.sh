#!/usr/bin/env bash
# Run on machine 0 of 4, in this folder on a volume that all machines mount: MAIN=address-of-machine-0 ./launch_0.sh
set -euo pipefail
cd "$(dirname "$0")"
MAIN=${MAIN:-machine-0} PORT=${PORT:-29500}
if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then
  echo "port $PORT is in use on this machine; choose another: PORT=29501, for all machines" >&2
  exit 1
fi
exec accelerate launch --config_file accelerate_0.yaml --main_process_ip "$MAIN" --main_process_port "$PORT" train.py
