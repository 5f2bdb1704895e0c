/* PREFIX.lock: lets one run at a time write snapshots under a prefix, on any file system that hosts
 * share, NFS included. The lock is a hard link, which only one process can make, to a file that
 * names its owner. A thread of the owner touches the file every few seconds. A lock is stale if its
 * owner's process is gone or, on another host, if nobody touched the file for PREFIX_LOCK_STALE
 * seconds by the file system's clock. This process's clock counts only for a lock dated in the
 * future. Not collective: rank 0. */
#ifndef POSEIDON_KEEP_PREFIX_LOCK_H
#define POSEIDON_KEEP_PREFIX_LOCK_H

#include "util/log.h"

enum { PREFIX_LOCK_TOUCH = 10, PREFIX_LOCK_STALE = 60, PREFIX_LOCK_PATIENCE = 20 }; /* seconds */

struct prefix_lock;

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

/* Stops touching the lock, and removes the lock if this process still holds it. NULL is allowed. */
void prefix_lock_release(struct prefix_lock *lock);

#endif
