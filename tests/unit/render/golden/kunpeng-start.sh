#!/usr/bin/env bash
# Starts by hand what deployment dsv3 runs on host n01
# plan sha256:DIGEST
# Needs bash, setsid (util-linux) and what the scripts name. Way back: bash stop.sh
set -euo pipefail

say() { printf '%s\n' "$1"; }
fail() {
  printf '%s\n' "error: $1" >&2
  exit 1
}

script=${BASH_SOURCE[0]}
[[ $script == */* ]] || script=./$script
CDPATH='' cd -- "${script%/*}/"
run_dir=$PWD
# Prefix of all /sys paths; for trials.
sysfs_root=${SGDEPLOY_SYSFS_ROOT-''}
hand=$run_dir/hand

say 'deployment dsv3, host n01 (10.0.0.1): 1 to start'
say "run folder: $run_dir"
[[ ! -e launch.json ]] || fail "sgdeploy itself runs this deployment in this folder; use 'sgdeploy down' first"
for tool in setsid grep taskset; do
  type -P "$tool" >/dev/null || fail "$tool is not installed here"
done
mkdir hand 2>/dev/null || fail "$hand exists: it was started by hand already; run 'bash stop.sh' first"
take_back() {
  local status=$?
  if ((status != 0)); then
    say "the start failed; taking back what was done"
    bash "$run_dir/stop.sh" || say "not all of it could be taken back; see above, then run 'bash stop.sh' again"
  fi
}
trap take_back EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

read -r boot_id </proc/sys/kernel/random/boot_id
read -r launch </proc/sys/kernel/random/uuid
printf '%s\n' "$boot_id" >hand/boot_id
printf '%s\n' "$launch" >hand/launch
mkdir -p logs

# load_module NAME FILE NAME=VALUE...: load a kernel module, or see that the loaded one has the planned parameters.
load_module() {
  local name=$1 file=$2 folder=$sysfs_root/sys/module/${1//-/_} parameter now
  shift 2
  if [[ ! -d $folder ]]; then
    say "insmod $file $*"
    insmod "$file" "$@" || fail "insmod $file failed (are you root, and is it built for $(uname -r)?)"
    return
  fi
  for parameter in "$@"; do
    [[ -r $folder/parameters/${parameter%%=*} ]] || continue
    read -r now <"$folder/parameters/${parameter%%=*}" || true
    # The kernel shows a boolean as Y or N, whatever it was given.
    case ${parameter#*=}:$now in
      1:Y | 0:N | "$now:$now") ;;
      *) fail "module $name is loaded with ${parameter%%=*}=$now, the plan wants $parameter; unload it (rmmod $name) and start again" ;;
    esac
  done
  say "module $name is loaded already"
}
load_module sdma_dae /opt/sdma/sdma_dae.ko safe_mode=0 share_chns=160

# set_pages PATH COUNT: write one hugepage count, remember what was there before, and read back what we got.
set_pages() {
  local file=$sysfs_root$1 want=$2 before now
  read -r before <"$file" || fail "cannot read $file; does this machine have that NUMA node and page size?"
  printf '%s\0%s\0' "$file" "$before" >>hand/hugepages
  printf '%s\n' "$want" >"$file" || fail "cannot write $file (are you root?)"
  read -r now <"$file" || fail "cannot read back $file"
  [[ $now == "$want" ]] || fail "$file: asked for $want pages, the kernel granted $now; free memory on that NUMA node, then start again"
  say "hugepages: $file: $before -> $now"
}

# start_process KEY LOG ID: start scripts/KEY.sh as the leader of its own session, its record written before it runs.
start_process() {
  local key=$1 log=$run_dir/logs/$2 id=$3 pid
  (
    # Bash lets background jobs ignore these two; the program decides for itself.
    trap - INT QUIT EXIT TERM HUP
    IFS= read -r -d '' stat <"/proc/$BASHPID/stat" || true
    read -ra fields <<<"${stat##*) }"
    printf '%s %s\n' "$BASHPID" "${fields[19]}" >"hand/$key.new"
    mv -- "hand/$key.new" "hand/$key.pid"
    export SGDEPLOY_MARK=dsv3/n01/$launch/$id
    exec setsid bash "$run_dir/scripts/$key.sh" </dev/null >>"$log" 2>&1
  ) &
  pid=$!
  while [[ ! -e hand/$key.pid ]]; do
    kill -0 "$pid" 2>/dev/null || fail "$key did not start"
    sleep 0.05
  done
  say "started $key, pid $pid, log $log"
}

# In the order of the plan: the pages of a rank, then the rank.
set_pages /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages 0
set_pages /sys/devices/system/node/node16/hugepages/hugepages-2048kB/nr_hugepages 2020
start_process native-n01-r00 native-n000-r00.log dsv3/native/n01/r00

say "all started; none of them is ready yet: follow logs/ and ask the leader's /health"
say "take down: bash $(printf %q "$run_dir")/stop.sh"
