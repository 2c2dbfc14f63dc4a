#!/usr/bin/env bash
# tiny/native/edge 1
# deployment tiny, plan sha256:DIGEST
# native on host edge 1 (192.0.2.7), node rank 0, leader
# listens on port 30000 (http)
# Runs in the foreground and becomes the program: bash native-edge 1.sh
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
source "$HOME"/venvs/sglang/bin/activate || fail 'cannot activate the virtual environment ~/venvs/sglang'
set -euo pipefail

cd -- "$run_dir"

# Secrets are named here. Their values come from the starter, or from the environment of who runs this by hand.
take_secret() {
  local sgdeploy_slot=SGDEPLOY_SECRET_$1
  [[ ! -v $sgdeploy_slot ]] || return 0
  [[ -v $1 ]] || fail "the variable $1 is not set, and this process needs the secret in it"
  printf -v "$sgdeploy_slot" '%s' "${!1}"
}
take_secret HF_TOKEN

export HF_TOKEN="$SGDEPLOY_SECRET_HF_TOKEN"
export NOTE='50 % of $HOME'
export SGLANG_USE_CPU_ENGINE=1
unset SGDEPLOY_SECRET_HF_TOKEN

# Search paths go in front of what is there already.
prepend() { export "$1=$2${!1:+:${!1}}"; }
prepend LD_LIBRARY_PATH '/opt/my lib:/opt/lib'

exec -- \
  taskset -c 0-3 \
  numactl --membind=0 -- \
  python -m sglang.launch_server \
  --model-path '/models/it'"'"'s tiny' \
  --host 192.0.2.7 \
  --port 30000 \
  --json-model-override-args '{"num_hidden_layers": 2}'
