#!/usr/bin/env bash
# Bring up a Slurm of two nodes on this machine, for `make test-slurm`.
#
# For Debian and Ubuntu, as root, without systemd: packages of the distribution, munge, one slurmctld and a slurmd for
# each node; the second one in a process namespace of its own. Memory of steps is held by cgroups of version 1 where they can be written, else by polling. Where Slurm
# answers already nothing is done. slurm_down.sh ends what this has started.
set -euo pipefail

RUN=/run/lecturecheck-slurm
LOG=/var/log/lecturecheck-slurm

# A zombie is not alive: where process 1 does not reap, its number stays taken.
alive() {
	local pid
	pid=$(cat "$1" 2>/dev/null) && [ -r "/proc/$pid/status" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$pid/status"
}
# Without a slurmctld sinfo tries again for seconds, so the configuration is looked for first.
answers() { command -v sinfo >/dev/null && [ -f /etc/slurm/slurm.conf ] && timeout 5 sinfo -h -o %T 2>/dev/null | grep -qE 'idle|mixed|alloc'; }
wait_for() {
	local what=$1 tries
	shift
	for tries in $(seq 100); do
		if "$@" >/dev/null 2>&1; then return; fi
		sleep 0.1
	done
	echo "slurm_up.sh: $what did not come up; see $LOG" >&2
	exit 1
}

if { [ ! -d "$RUN" ] || alive "$RUN/slurmctld.pid"; } && answers; then
	echo "slurm_up.sh: Slurm answers already"
	exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo "slurm_up.sh: there is no Slurm here, and installing one needs root and apt-get" >&2
	exit 1
fi

missing=""
for package in slurmctld slurmd slurm-client munge; do
	dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
if [ -n "$missing" ]; then
	apt-get update -qq
	# shellcheck disable=SC2086 - a list of words
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1
fi

mkdir -p "$RUN" "$LOG" /etc/slurm /run/munge /var/log/munge /var/lib/munge "$RUN/state"
chown slurm: "$RUN" "$LOG" "$RUN/state"
chown munge: /run/munge /var/log/munge /var/lib/munge
chmod 755 /run/munge
if [ ! -s /etc/munge/munge.key ]; then
	(umask 077 && dd if=/dev/urandom of=/etc/munge/munge.key bs=1 count=128 status=none)
	chown munge: /etc/munge/munge.key
fi

if [ ! -f /sys/fs/cgroup/cgroup.controllers ] && [ -w /sys/fs/cgroup/memory ] && [ -w /sys/fs/cgroup/freezer ]; then
	held="cgroups"
	confine="ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup"
	cat >/etc/slurm/cgroup.conf <<-'CONF'
		CgroupPlugin=cgroup/v1
		CgroupAutomount=no
		ConstrainRAMSpace=yes
		ConstrainCores=no
		ConstrainDevices=no
	CONF
else
	held="polling"
	rm -f /etc/slurm/cgroup.conf
	confine="ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherParams=OverMemoryKill"
fi

host=$(hostname -s)
cpus=$(nproc)
memory=$(($(awk '/^MemTotal/ { print $2 }' /proc/meminfo) / 1024 - 1024))
cat >/etc/slurm/slurm.conf <<-CONF
	ClusterName=lecturecheck
	SlurmctldHost=$host
	SlurmUser=slurm
	AuthType=auth/munge
	StateSaveLocation=$RUN/state
	SlurmdSpoolDir=$RUN/spool-%n
	SlurmctldPidFile=$RUN/slurmctld.pid
	SlurmdPidFile=$RUN/slurmd-%n.pid
	SlurmctldLogFile=$LOG/slurmctld.log
	SlurmdLogFile=$LOG/slurmd-%n.log
	MpiDefault=none
	ReturnToService=2
	SchedulerParameters=sched_min_interval=0,sched_interval=2
	SelectType=select/cons_tres
	SelectTypeParameters=CR_Core_Memory
	$confine
	JobAcctGatherFrequency=task=1
	AccountingStorageType=accounting_storage/none
	KillWait=5
	DefMemPerCPU=512
	NodeName=lc1 NodeHostname=$host NodeAddr=127.0.0.1 Port=17001 CPUs=$cpus RealMemory=$memory
	NodeName=lc2 NodeHostname=$host NodeAddr=127.0.0.1 Port=17002 CPUs=$cpus RealMemory=$memory
	PartitionName=lectures Nodes=lc1,lc2 Default=YES MaxTime=INFINITE State=UP
CONF

# Each in a session of its own, so that the calling shell may end.
alive /run/munge/munged.pid || setsid -f runuser -u munge -- /usr/sbin/munged
wait_for munged munge -n
alive "$RUN/slurmctld.pid" || setsid -f slurmctld -c
wait_for slurmctld sh -c 'scontrol ping | grep -q UP'
alive "$RUN/slurmd-lc1.pid" || setsid -f slurmd -N lc1
# The second node has process numbers of its own: what runs there cannot be seen from here, as on another machine.
if ! alive "$RUN/node-lc2.pid"; then
	setsid unshare --pid --fork --kill-child --mount-proc sh -c 'slurmd -D -N lc2; exit' </dev/null >/dev/null 2>&1 &
	echo $! >"$RUN/node-lc2.pid"
	disown
fi
nodes_are_idle() { [ "$(sinfo -h -N -o %T | grep -c idle)" -eq 2 ]; }
wait_for slurmd nodes_are_idle
srun --quiet --ntasks=1 --mem=64M true
echo "slurm_up.sh: two nodes of $cpus cores and $memory MiB; memory held by $held"
