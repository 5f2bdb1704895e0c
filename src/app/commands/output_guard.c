/* Checks outputs before the work, so that no input and no other file is overwritten. */
#include "commands/output_guard.h"

#include "util/choice.h"
#include "util/error.h"
#include "util/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int output_check_folder(const char *path)
{
    char *folder = path_folder(path);
    int status = 0;

    if (!folder)
        return -1;
    if (access(folder, W_OK | X_OK) != 0)
        status = error_set("%s cannot be written: folder %s: %s", path, folder, strerror(errno));
    free(folder);
    return status;
}

/* Returns true if `path` is a file of the comma list, or the file that the whole list names. */
static bool is_one_of(const char *path, const char *list)
{
    char *copy = strdup(list), *rest = copy, *name;
    bool found = path_is_same(path, list);

    while (copy && !found && (name = strsep(&rest, ",")) != NULL)
        found = path_is_same(path, name);
    free(copy);
    return found;
}

int output_check(const char *path, bool force, int ninputs, const char *const *inputs)
{
    struct stat st;

    if (!*path)
        return error_set("expected the name of a file to write, found an empty one");
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return error_set("%s is a folder; expected the name of a file to write", path);
        if (!S_ISREG(st.st_mode))
            return error_set("%s is a device or pipe; expected the name of a file to write", path);
        for (int i = 0; i < ninputs; i++)
            if (inputs[i] && is_one_of(path, inputs[i]))
                return error_set("%s is one of the inputs; expected another file to write", path);
        if (!force && st.st_size > 0)
            return error_set("%s exists already; --force replaces it", path);
    }
    return output_check_folder(path);
}

int output_check_ending(const char *path, const char *const *ends)
{
    char expected[128];

    for (int i = 0; ends[i]; i++)
        if (path_ends(path, ends[i]))
            return 0;
    return error_set("'%s': expected a name that ends in %s", path,
                     choice_list(ends, expected, sizeof expected));
}

int output_check_all(int noutputs, const char *const *outputs, bool force, int ninputs,
                     const char *const *inputs)
{
    for (int i = 0; i < noutputs; i++) {
        if (!outputs[i])
            continue;
        if (output_check(outputs[i], force, ninputs, inputs))
            return -1;
        for (int j = 0; j < i; j++)
            if (outputs[j] &&
                (!strcmp(outputs[i], outputs[j]) || path_is_same(outputs[i], outputs[j])))
                return error_set("%s would be written twice; expected a file for each output",
                                 outputs[i]);
    }
    return 0;
}
