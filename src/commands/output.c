/* Outputs that are looked at before the work and left whole after it. */
#include "commands/convert.h"

#include "util/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int output_check_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    int status = 0;

    if (!folder)
        return error_memory(strlen(path), "a folder's name");
    if (access(folder, W_OK | X_OK) != 0)
        status = error_set("%s cannot be written: folder %s: %s", path, folder, strerror(errno));
    free(folder);
    return status;
}

int output_check(const char *path, bool force, int nsources, char *const *sources)
{
    struct stat st, source;

    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return error_set("%s is a folder; expected the name of a file to write", path);
        for (int i = 0; i < nsources; i++)
            if (stat(sources[i], &source) == 0 && source.st_dev == st.st_dev &&
                source.st_ino == st.st_ino)
                return error_set("%s is the source itself; expected another file to write", path);
        if (!force)
            return error_set("%s exists already; --force replaces it", path);
    }
    return output_check_folder(path);
}
