#!/usr/bin/env bash
# Stops what start.sh started on host n01 (deployment dsv3), and nothing else.
# Leaders first: with several hosts, run it on the leader's host before the others.
set -euo pipefail
shopt -s nullglob

say() { printf '%s\n' "$1"; }
script=${BASH_SOURCE[0]}
[[ $script == */* ]] || script=./$script
CDPATH='' cd -- "${script%/*}/"
grace=${SGDEPLOY_GRACE-5}

if [[ ! -d hand ]]; then
  say "nothing was started by hand in $PWD"
  exit 0
fi
read -r boot_id </proc/sys/kernel/random/boot_id
recorded_boot='' launch=''
read -r recorded_boot 2>/dev/null <hand/boot_id || true
read -r launch 2>/dev/null <hand/launch || true
if [[ $recorded_boot != "$boot_id" || -z $launch ]]; then
  say "this machine was started anew since then (or the start broke off at once): nothing to stop"
  rm -r hand
  exit 0
fi

declare -A recorded=() # pid -> start time, in clock ticks after boot
declare -A pid_of=()   # key -> pid
for record in hand/*.pid; do
  read -r pid start <"$record"
  key=${record#hand/}
  recorded[$pid]=$start
  pid_of[${key%.pid}]=$pid
done

# look PID: fill `state`, `session` and `start` from /proc; false where there is no such process.
look() {
  local stat='' fields
  { IFS= read -r -d '' stat <"/proc/$1/stat"; } 2>/dev/null || true
  [[ -n $stat ]] || return 1
  # The name in parentheses may hold anything, so count from behind the last one.
  read -ra fields <<<"${stat##*) }"
  state=${fields[0]} session=${fields[3]} start=${fields[19]}
}

# is_recorded PID: it lives, and it is not a stranger that got the same number later.
is_recorded() {
  [[ -v recorded[$1] ]] && look "$1" && [[ $start == "${recorded[$1]}" && $state != [ZX] ]]
}

# find_ours: fill `ours` with all living processes that came from start.sh: those recorded, those in their
# sessions, and those that carry the mark of this launch in their environment.
find_ours() {
  local folder pid own_session file
  local -A marked=()
  ours=()
  while IFS= read -r file; do
    marked[$file]=1
  done < <(grep -lszF -- "/$launch/" /proc/[0-9]*/environ)
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    if ! look "$pid" || [[ $state == [ZX] ]]; then continue; fi
    if [[ -v recorded[$session] ]]; then
      own_session=$session
      if [[ $pid == "$own_session" ]]; then
        [[ $start == "${recorded[$pid]}" ]] && ours+=("$pid")
        continue
      fi
      # A session number stays taken while it has members; a leader with another start time is a stranger's.
      if ((start >= recorded[$own_session])) && { ! look "$own_session" || [[ $start == "${recorded[$own_session]}" ]]; }; then
        ours+=("$pid")
      fi
    elif [[ -v marked[$folder/environ] ]]; then
      ours+=("$pid")
    fi
  done
}

send() {
  local signal=$1
  shift
  (($# == 0)) || kill -s "$signal" "$@" 2>/dev/null || true
}

# gone SECONDS: wait until nothing of ours is left; false when the time is up.
gone() {
  local end=$((SECONDS + $1))
  find_ours
  while ((${#ours[@]} > 0)); do
    ((SECONDS < end)) || return 1
    sleep 0.2
    find_ours
  done
}

# ended SECONDS PID...: wait until these processes themselves have ended; false when the time is up.
ended() {
  local end=$((SECONDS + $1)) pid
  shift
  for pid in "$@"; do
    while is_recorded "$pid"; do
      ((SECONDS < end)) || return 1
      sleep 0.2
    done
  done
}

leaders=()
for key in native-n01-r00; do
  pid=${pid_of[$key]-}
  if [[ -n $pid ]] && is_recorded "$pid"; then leaders+=("$pid"); fi
done
if ((${#leaders[@]} > 0)); then
  say "SIGTERM to the leader (pid ${leaders[*]}), up to $grace s to finish its requests"
  send TERM "${leaders[@]}"
  ended "$grace" "${leaders[@]}" || say "it has not ended in time"
fi
find_ours
if ((${#ours[@]} > 0)); then
  say "SIGTERM to ${#ours[@]} processes, up to $grace s to end"
  send TERM "${ours[@]}"
  if ! gone "$grace"; then
    say "SIGKILL to ${#ours[@]} processes that have not ended"
    send KILL "${ours[@]}"
    if ! gone 10; then
      say "error: still alive after SIGKILL: ${ours[*]} (kept in $PWD/hand); run 'bash stop.sh' again" >&2
      exit 1
    fi
  fi
fi
say "no process of this launch lives"

# Hugepages go back to what they were, the last write first.
failed=0
if [[ -e hand/hugepages ]]; then
  mapfile -d '' -t pages <hand/hugepages
  for ((i = ${#pages[@]} - 2; i >= 0; i -= 2)); do
    file=${pages[i]} before=${pages[i + 1]} now=''
    printf '%s\n' "$before" >"$file" || true
    read -r now <"$file" || true
    if [[ $now == "$before" ]]; then
      say "hugepages: $file: back to $before"
    else
      say "error: $file should be $before again and is ${now:-unreadable}" >&2
      failed=1
    fi
  done
fi
if ((failed)); then
  say "error: the records are kept in $PWD/hand; run 'bash stop.sh' again" >&2
  exit 1
fi
rm -r hand
say "stopped; logs stay in $PWD/logs"
