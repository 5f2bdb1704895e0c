/* Watches files that are read for hours: reports those that change after they were opened. */
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
    _Atomic bool told; /* true once the user was told of a change; set by any thread */
};

/* The watched files. All zero watches nothing. */
struct watch {
    struct watch_file *file; /* owned */
    int nfiles;
    _Atomic unsigned next; /* counts looks, by any thread; selects the file of the next look */
};

/* Remembers the present state of a file. A file that does not exist is not watched. */
int watch_add(struct watch *watch, const char *path);

/* Checks one of the files, in turn. Fails if the file has become shorter. If the file was written
 * to, replaced or removed, calls `say` once, and training goes on. */
int watch_look(struct watch *watch, void (*say)(void *context, const char *text), void *context);

void watch_free(struct watch *watch);

#endif
