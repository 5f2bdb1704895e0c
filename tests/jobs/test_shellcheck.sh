#!/bin/sh
# ShellCheck finds nothing in the job scripts and their tests: what users name their files is quoted everywhere. Skipped
# where it is not installed.
set -u
command -v shellcheck >/dev/null 2>&1 || { echo 'SKIP: shellcheck is not installed'; exit 77; }
cd "${abs_top_srcdir:?}" || exit 99
exec shellcheck --external-sources jobs/*.sh jobs/*.slurm jobs/*.pbs tests/jobs/*.sh tests/tools/test_report.sh tests/cluster/*.sh
