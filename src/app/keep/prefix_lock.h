/* PREFIX.lock: lets one run at a time write snapshots under a prefix, on any file system that hosts
 * share, NFS included. The lock is a hard link, which only one process can make, to a file that
 * names its owner. A thread of the owner writes its pulse into the file every few seconds, so that
 * the next start knows how far a killed start got. A lock is stale if its owner's process is gone
 * or, on another host, if nobody touched the file for PREFIX_LOCK_STALE seconds by the file
 * system's clock. This process's clock counts only for a lock dated in the future. Not collective:
 * rank 0. */
#ifndef POSEIDON_KEEP_PREFIX_LOCK_H
#define POSEIDON_KEEP_PREFIX_LOCK_H

#include "util/log.h"

enum { PREFIX_LOCK_TOUCH = 2, PREFIX_LOCK_STALE = 60, PREFIX_LOCK_PATIENCE = 20 }; /* seconds */

struct prefix_lock;
struct run_pulse;

/* Takes the lock. Takes over a stale lock, with a warning; waits for another host's lock that may
 * be stale. patient: waits PREFIX_LOCK_PATIENCE seconds for a held lock, too, because this run's
 * last start may be about to end. Fails if another process holds the lock; the message names its
 * run, host and process. */
int prefix_lock_take(const char *prefix, bool patient, struct log *log, struct prefix_lock **out);

/* Writes the run's name into the lock. Fails if another run released the lock while this process
 * waited: the files under the prefix belong to that run. lock NULL: returns 0. */
int prefix_lock_name(struct prefix_lock *lock, const char *run);

/* Fails if another process holds the lock now. lock NULL: returns 0. */
int prefix_lock_check(const struct prefix_lock *lock);

/* Stores what this start has done, for the next write of the pulse. Cost: four stores. lock NULL:
 * does nothing. */
void prefix_lock_beat(struct prefix_lock *lock, const struct run_pulse *pulse);

/* Returns the pulse of the dead owner from which the lock was taken over, if its run has the lock's
 * name; else an empty pulse. */
struct run_pulse prefix_lock_dead(const struct prefix_lock *lock);

/* Returns the seconds since this process began. */
double prefix_lock_process_age(void);

/* Stops touching the lock, and removes the lock if this process still holds it. NULL is allowed. */
void prefix_lock_release(struct prefix_lock *lock);

#endif
