#!/bin/sh
# tests/mpirun.sh N PROGRAM [ARGUMENT...]
#
# Starts PROGRAM on N ranks of this machine, however few cores it has and whoever asks, and ends
# it when it hangs. Its exit status is PROGRAM's, or 124 after the time limit. Standard output and
# standard error are PROGRAM's alone: harmless warnings of the MPI library are switched off.
#
#   MPIRUN                the launcher (mpirun), with any options of its own
#   POSEIDON_MPI_TIMEOUT  seconds until a hanging run is ended (600: no measure of how long a run may take)
#   OMP_NUM_THREADS       threads per rank; set to cores / N where it is not set
set -u

if [ $# -lt 2 ]; then
    echo "usage: $0 N PROGRAM [ARGUMENT...]" >&2
    exit 2
fi
ranks=$1
shift
case $ranks in
'' | *[!0-9]* | 0)
    echo "$0: the number of ranks must be a positive integer, not '$ranks'" >&2
    exit 2
    ;;
esac
limit=${POSEIDON_MPI_TIMEOUT:-600}
launcher=${MPIRUN:-mpirun}

if [ -z "${OMP_NUM_THREADS:-}" ]; then
    OMP_NUM_THREADS=$(($(getconf _NPROCESSORS_ONLN) / ranks))
    [ "$OMP_NUM_THREADS" -ge 1 ] || OMP_NUM_THREADS=1
    export OMP_NUM_THREADS
fi

# Word splitting is meant: MPIRUN may carry options.
# shellcheck disable=SC2086
version=$($launcher --version 2>&1 | head -n 1)
options=
case $version in
*'Open MPI'* | *OpenRTE* | *PRTE*)
    options='--oversubscribe --bind-to none'
    if [ "$(id -u)" -eq 0 ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
    # Defaults that the user's own environment overrides. A rank that waits must not take the core
    # from one that computes; missing network cards and forgiving fallbacks are no news here. Neither launcher nor ranks
    # need ask every device of the bus, open what reaches other machines, or share a job's data by files: half of a start.
    : "${OMPI_MCA_mpi_yield_when_idle=1}" "${OMPI_MCA_btl_base_warn_component_unused=0}"
    : "${OMPI_MCA_orte_base_help_aggregate=1}" "${HWLOC_HIDE_ERRORS=2}" "${HWLOC_COMPONENTS=-linuxio,-pci}"
    : "${OMPI_MCA_pml=ob1}" "${OMPI_MCA_btl=self,vader}" "${PMIX_MCA_gds=hash}"
    export OMPI_MCA_mpi_yield_when_idle OMPI_MCA_btl_base_warn_component_unused
    export OMPI_MCA_orte_base_help_aggregate HWLOC_HIDE_ERRORS HWLOC_COMPONENTS OMPI_MCA_pml OMPI_MCA_btl PMIX_MCA_gds
    ;;
esac

# In the foreground, so that an interrupt from the keyboard still reaches the launcher.
# shellcheck disable=SC2086
exec timeout --foreground -k 10 "$limit" $launcher $options -n "$ranks" "$@" </dev/null
