/* Files that are read for hours: whether they are still what they were when they were opened. */
#ifndef POSEIDON_INPUT_WATCH_H
#define POSEIDON_INPUT_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

struct watch_file {
    char *path; /* owned */
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec written;
    _Atomic bool told; /* any thread */
};

/* All zero watches nothing. */
struct watch {
    struct watch_file *file; /* owned */
    int nfiles;
    _Atomic unsigned next; /* to be looked at; any thread */
};

/* Remembers the file as it is now. One that is not there is not watched. */
int watch_add(struct watch *watch, const char *path);

/* Looks at one of the files, in turn. Fails where it is shorter than it was. Where it was written
 * to, replaced or removed, `say` is told once: training goes on with what it finds. */
int watch_look(struct watch *watch, void (*say)(void *context, const char *text), void *context);

void watch_free(struct watch *watch);

#endif
