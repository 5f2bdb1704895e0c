/* PREFIX.lock: one run at a time writes snapshots under a prefix, on any file system that hosts
 * share, NFS included: the lock is a hard link, which only one of them can make, to a file that
 * names its owner. Its owner touches it every few seconds, in a thread that does nothing else. A
 * lock is stale where its process is gone, or, on another host, where nobody touched it for
 * PREFIX_LOCK_STALE seconds by the file system's own clock: nobody else's is asked, but for a lock
 * that is dated in the future. Not collective: rank 0. */
#ifndef POSEIDON_KEEP_PREFIX_LOCK_H
#define POSEIDON_KEEP_PREFIX_LOCK_H

#include "util/log.h"

enum { PREFIX_LOCK_TOUCH = 10, PREFIX_LOCK_STALE = 60, PREFIX_LOCK_PATIENCE = 20 }; /* seconds */

struct prefix_lock;

/* Takes the lock. A stale one is taken over, and said so; one of another host that may be stale is
 * waited for. patient: one that is held is waited for, too, PREFIX_LOCK_PATIENCE seconds: the last
 * start of a run that goes on may be about to end. Fails where another process holds it, named with
 * its run, host and process. */
int prefix_lock_take(const char *prefix, bool patient, struct log *log, struct prefix_lock **out);

/* Says in the lock for which run it is held. Fails where it was waited for while another run held
 * it, which has left in order since: the files there are that run's. NULL is fine: 0. */
int prefix_lock_name(struct prefix_lock *lock, const char *run);

/* Fails where another process has the lock now. NULL is fine: 0. */
int prefix_lock_check(const struct prefix_lock *lock);

/* Ends the touching and removes the lock if it is still this one's; NULL is fine. */
void prefix_lock_release(struct prefix_lock *lock);

#endif
