#!/usr/bin/env bash
# dsv3/native/n02/r00
# deployment dsv3, plan sha256:DIGEST
# native on host n02 (10.0.0.2), node rank 1, rank in node 0
# listens on port 30000 (http)
# connects to 10.0.0.1:5010 (rendezvous)
# Runs in the foreground and becomes the program: bash native-n02-r00.sh
set -euo pipefail

fail() {
  printf '%s\n' "sgdeploy: $1" >&2
  exit 78
}

# The run folder is the one above this script.
script=${BASH_SOURCE[0]}
[[ $script == */* ]] || script=./$script
CDPATH='' cd -- "${script%/*}/.."
run_dir=$PWD

# Files of others read unset variables and carry on after failures: the strict mode rests meanwhile.
set +euo pipefail
hook=$(/opt/conda/bin/conda shell.bash hook) || fail 'cannot run /opt/conda/bin/conda'
eval "$hook"
conda activate sgl-cpu || fail 'cannot activate the conda environment sgl-cpu'
[[ -r /opt/HPCKit/setvars.sh ]] || fail 'cannot read /opt/HPCKit/setvars.sh'
# Such files often end with the status of a test that did not hold, so their status says little.
source /opt/HPCKit/setvars.sh || printf '%s\n' 'sgdeploy: note: /opt/HPCKit/setvars.sh ended with a failure' >&2
set -euo pipefail

cd -- /opt/sglang || fail 'cannot enter /opt/sglang'

export GLOO_SOCKET_IFNAME=enp26s0f0
export IS_PREFILL=1
export MASTER_ADDR=10.0.0.1
export MASTER_PORT=5010
export PYTHONWARNINGS=ignore::FutureWarning
export SGLANG_WARMUP_TIMEOUT=1600
export SPT_NOENV=1

# Search paths go in front of what is there already.
prepend() { export "$1=$2${!1:+:${!1}}"; }
prepend CPATH /opt/kupl/include
prepend LIBRARY_PATH /opt/kupl/lib

exec -- \
  taskset -c 20 \
  /opt/sglang/scripts/cpu_kunpeng/pyinstall/dist/sglang_server_tp0/sglang_server \
  --model-path /opt/model \
  --device cpu \
  --trust-remote-code \
  --host 10.0.0.2 \
  --dist-init-addr 10.0.0.1:5010 \
  --nnodes 2 \
  --node-rank 1 \
  --tp-size 2 \
  --chunked-prefill-size -1 \
  --disaggregation-bootstrap-port 9001 \
  --tp-rank-in-node 0 \
  --port 30000
