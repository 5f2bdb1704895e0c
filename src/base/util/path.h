/* Paths that a file names: a path is taken from the current folder, or beside the file that names
 * it. Not collective. */
#ifndef POSEIDON_UTIL_PATH_H
#define POSEIDON_UTIL_PATH_H

#include <stdbool.h>

/* Returns the part of `path` after the last slash; borrowed from `path`. */
const char *path_base(const char *path);

/* Returns true if the path ends in `end`, ignoring case: path_ends("a.SVG", ".svg"). */
bool path_ends(const char *path, const char *end);

/* Returns true if `path` is an existing folder. */
bool path_is_folder(const char *path);

/* Returns true if both paths lead to one file. */
bool path_is_same(const char *path, const char *other);

/* Returns `path` in the folder of the file `named_by`. Returns just `path` if it is absolute, or if
 * named_by is NULL or has no folder. The caller frees the result; NULL with a message. */
char *path_beside(const char *path, const char *named_by);

/* Returns `path` as named if that exists, else beside `named_by` if that exists. Else returns
 * `path` as named with *found false, and opening it will say what is wrong. found may be NULL. The
 * caller frees the result; NULL with a message on failure. */
char *path_find(const char *path, const char *named_by, bool *found);

/* Sets the message that `path` is missing, with the current folder if relative; returns -1. */
int path_missing(const char *path);

/* Returns the folder of `path`, "." if the path names none. The caller frees the result; NULL with
 * a message on failure. */
char *path_folder(const char *path);

/* Creates the folder and its missing parents. Reports no failure: writing there will. Changes
 * `folder` during the call. */
void path_make_folders(char *folder);

/* Returns the path of the file `name` in the cache: POSEIDON_CACHE, else $XDG_CACHE_HOME/poseidon,
 * else ~/.cache/poseidon, a folder that is created if missing. Returns NULL if there is no such
 * folder or it is not writable; measurements are then kept for this run only. The caller frees the
 * result. */
char *path_in_cache(const char *name);

#endif
