/* A look is one call of stat: cheap enough for every batch, in the thread that reads the batch. */
#include "input/watch.h"

#include "util/alloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int watch_add(struct watch *watch, const char *path)
{
    char *copy;
    struct stat st;

    if (stat(path, &st))
        return 0;
    if (ALLOC_ROOM(watch->file, watch->nfiles, "a list of files") ||
        alloc_text(&copy, path, "a path"))
        return -1;
    watch->file[watch->nfiles++] = (struct watch_file){.path = copy,
                                                       .device = st.st_dev,
                                                       .inode = st.st_ino,
                                                       .bytes = st.st_size,
                                                       .written = st.st_mtim};
    return 0;
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

int watch_look(struct watch *watch, void (*say)(void *context, const char *text), void *context)
{
    struct watch_file *file;
    const char *what = NULL;
    struct stat st;
    char text[4096 + 160];

    if (watch->nfiles == 0)
        return 0;
    file = &watch->file[atomic_fetch_add(&watch->next, 1) % (unsigned)watch->nfiles];
    if (stat(file->path, &st))
        what = errno == ENOENT ? "was removed" : NULL; /* other errors may pass */
    else if (st.st_dev != file->device || st.st_ino != file->inode)
        what = "was replaced by another file";
    else if (st.st_size < file->bytes)
        return error_set(
            "%s: the data has shrunk while it is read: %lld bytes when training began, now %lld",
            file->path, (long long)file->bytes, (long long)st.st_size);
    else if (st.st_size != file->bytes || !same_time(st.st_mtim, file->written))
        what = "was written to";
    if (!what || !say || atomic_exchange(&file->told, true))
        return 0;
    snprintf(text, sizeof text,
             "%s %s while training reads it: samples may differ from those at the start, and so "
             "may a resumed run",
             file->path, what);
    say(context, text);
    return 0;
}

void watch_free(struct watch *watch)
{
    for (int i = 0; i < watch->nfiles; i++)
        free(watch->file[i].path);
    free(watch->file);
    *watch = (struct watch){.nfiles = 0};
}
