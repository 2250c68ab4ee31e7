#!/usr/bin/env bash
# End what slurm_up.sh has started, by the files with process numbers it left, never by name.
set -uo pipefail

RUN=/run/lecturecheck-slurm
[ -d "$RUN" ] || exit 0

is_alive() { [ -r "/proc/$1/status" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status"; }
pids=$(cat "$RUN"/slurmctld.pid "$RUN"/slurmd-lc1.pid 2>/dev/null)
if [ -n "$pids" ]; then timeout 10 scancel --user=root 2>/dev/null; fi
for pid in $pids; do kill "$pid" 2>/dev/null; done
# unshare(1) takes no notice of SIGTERM; all that the node runs ends with it.
if node=$(cat "$RUN/node-lc2.pid" 2>/dev/null); then
	kill -KILL "$node" 2>/dev/null
	pids="$pids $node"
fi
for _ in $(seq 100); do
	left=""
	for pid in $pids; do if is_alive "$pid"; then left=yes; fi; done
	[ -n "$left" ] || break
	sleep 0.1
done
if munged=$(cat /run/munge/munged.pid 2>/dev/null); then kill "$munged" 2>/dev/null; fi
for group in /sys/fs/cgroup/memory /sys/fs/cgroup/freezer /sys/fs/cgroup/cpuset /sys/fs/cgroup/devices /sys/fs/cgroup/cpuacct; do
	for node in lc1 lc2; do
		if [ -d "$group/slurm_$node" ]; then find "$group/slurm_$node" -depth -type d -exec rmdir {} \; 2>/dev/null; fi
	done
done
rm -rf "$RUN" /etc/slurm/slurm.conf /etc/slurm/cgroup.conf
echo "slurm_down.sh: Slurm is down"
[ -z "$left" ]
