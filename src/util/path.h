/* Paths that a file names: they hold as named, from the current folder, or beside the file that
 * names them. Not collective. */
#ifndef POSEIDON_UTIL_PATH_H
#define POSEIDON_UTIL_PATH_H

#include <stdbool.h>

/* What stands behind the last slash of `path`; borrowed from it. */
const char *path_base(const char *path);

/* Whether the name ends so: path_ends("a.SVG", ".svg"). */
bool path_ends(const char *path, const char *end);

/* Whether the path is an existing folder. */
bool path_is_folder(const char *path);

/* `path` beside the file `named_by`: in that file's folder. Just `path` where it is absolute, or
 * where named_by is NULL or has no folder. Memory that the caller frees, or NULL with a message. */
char *path_beside(const char *path, const char *named_by);

/* `path` as named if that exists, else beside `named_by` if that exists, else `path` as named, with
 * *found false: whoever opens it says what is wrong. found may be NULL.
 * Memory that the caller frees, or NULL with a message. */
char *path_find(const char *path, const char *named_by, bool *found);

/* Says that nothing is at `path`, and what the current folder is where that matters; returns -1. */
int path_missing(const char *path);

/* A remark on a path that is not there and has a placeholder, as "${DATA}/list.txt" or "@NET@"; "".
 */
#define PATH_TEMPLATE " (this looks like a template: fill in its placeholders first)"
const char *path_template_remark(const char *path);

/* The folder that `path` is in, "." where it names none. Memory that the caller frees, or NULL with
 * a message. */
char *path_folder(const char *path);

/* Makes the folder, and those it is in, where they are missing; whoever writes there sees whether
 * that was possible. `folder` is changed meanwhile. */
void path_make_folders(char *folder);

/* The file `name` in the folder of what was measured once: POSEIDON_CACHE, else
 * $XDG_CACHE_HOME/poseidon, else ~/.cache/poseidon, which is made where it is missing. NULL where
 * there is no such place or it may not be written: then such things are kept for this run only.
 * Memory that the caller frees. */
char *path_in_cache(const char *name);

#endif
