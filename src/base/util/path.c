/* Paths that files name, and paths in the cache folder. */
#include "util/path.h"

#include "util/error.h"
#include "util/strbuf.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

const char *path_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

bool path_ends(const char *path, const char *end)
{
    size_t length = strlen(path), tail = strlen(end);

    return length >= tail && strcasecmp(path + length - tail, end) == 0;
}

bool path_is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool path_is_same(const char *path, const char *other)
{
    struct stat a, b;

    return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

char *path_beside(const char *path, const char *named_by)
{
    struct strbuf beside = {0};

    if (path[0] != '/' && named_by)
        strbuf_append(&beside, named_by, (size_t)(path_base(named_by) - named_by));
    strbuf_puts(&beside, path);
    return strbuf_take(&beside);
}

char *path_find(const char *path, const char *named_by, bool *found)
{
    bool as_named = access(path, F_OK) == 0, exists;
    char *beside = path_beside(path, as_named ? NULL : named_by);

    exists = as_named || (beside && access(beside, F_OK) == 0);
    if (found)
        *found = exists;
    if (exists || !beside)
        return beside;
    free(beside);
    return path_beside(path, NULL);
}

int path_missing(const char *path)
{
    char folder[1024];

    if (path[0] != '/' && getcwd(folder, sizeof folder))
        return error_set("%s: no such file (the current folder is %s)", path, folder);
    return error_set("%s: no such file", path);
}

char *path_folder(const char *path)
{
    const char *base = path_base(path);
    size_t length = base - path > 1 ? (size_t)(base - path) - 1 : (size_t)(base - path);
    struct strbuf folder = {0};

    if (length > 0)
        strbuf_append(&folder, path, length);
    else
        strbuf_puts(&folder, ".");
    return strbuf_take(&folder);
}

static void put_cache_folder(struct strbuf *out)
{
    const char *chosen = getenv("POSEIDON_CACHE"), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");

    if (chosen)
        strbuf_puts(out, chosen);
    else if (cache && cache[0])
        strbuf_printf(out, "%s/poseidon", cache);
    else if (home && home[0])
        strbuf_printf(out, "%s/.cache/poseidon", home);
}

void path_make_folders(char *folder)
{
    for (char *slash = folder + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        mkdir(folder, 0777);
    }
    mkdir(folder, 0777);
}

char *path_in_cache(const char *name)
{
    struct strbuf path = {0};

    put_cache_folder(&path);
    if (path.length > 0) {
        path_make_folders(path.data);
        if (access(path.data, W_OK) == 0) {
            strbuf_printf(&path, "/%s", name);
            return strbuf_take(&path);
        }
    }
    strbuf_free(&path);
    return NULL;
}
