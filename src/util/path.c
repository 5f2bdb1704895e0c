/* Looking for files that files name. */
#include "util/path.h"

#include "util/strbuf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *path_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

bool path_ends(const char *path, const char *end)
{
    size_t length = strlen(path), tail = strlen(end);

    return length >= tail && strcmp(path + length - tail, end) == 0;
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
    bool here = access(path, F_OK) == 0, there;
    char *beside = path_beside(path, here ? NULL : named_by);

    there = here || (beside && access(beside, F_OK) == 0);
    if (found)
        *found = there;
    if (there || !beside)
        return beside;
    free(beside);
    return path_beside(path, NULL);
}
