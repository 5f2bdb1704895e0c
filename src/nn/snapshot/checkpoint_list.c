/* Lists the solver states under a prefix, with their owners. */
#include "snapshot/checkpoint.h"

#include "util/alloc.h"
#include "util/path.h"
#include "util/strbuf.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns what follows NAME_iter_ in the file's name; "": the name begins otherwise. */
static const char *number_of(const char *file, const char *name)
{
    size_t length = strlen(name);

    return strncmp(file, name, length) || strncmp(file + length, "_iter_", 6) ? ""
                                                                              : file + length + 6;
}

/* Returns N of N.solverstate or N.solverstate.h5; -1: another text. */
static int64_t iteration_of(const char *number)
{
    char *end;
    long long iteration;

    if (*number < '0' || *number > '9')
        return -1;
    errno = 0;
    iteration = strtoll(number, &end, 10);
    return errno || (strcmp(end, ".solverstate") && strcmp(end, ".solverstate.h5")) ? -1
                                                                                    : iteration;
}

int checkpoint_read_owner(const char *path, struct snapshot_owner *owner)
{
    struct snapshot_state state;

    *owner = (struct snapshot_owner){.run = NULL};
    if (snapshot_peek_state(path, &state))
        return -1;
    *owner = state.owner;
    state.owner = (struct snapshot_owner){.run = NULL};
    snapshot_state_free(&state);
    return 0;
}

static int add_entry(struct checkpoint_list *list, const char *folder, const char *file,
                     int64_t iteration)
{
    struct checkpoint_entry *entry;
    struct strbuf path = {0};

    if (ALLOC_ROOM(list->entries, list->count, "a list of snapshots"))
        return -1;
    strbuf_printf(&path, "%s%s", folder, file);
    entry = &list->entries[list->count];
    *entry = (struct checkpoint_entry){.path = strbuf_take(&path), .iteration = iteration};
    return entry->path ? list->count++, 0 : -1;
}

static int newest_first(const void *left, const void *right)
{
    const struct checkpoint_entry *a = left, *b = right;

    return a->iteration != b->iteration ? (a->iteration < b->iteration ? 1 : -1)
                                        : strcmp(a->path, b->path);
}

int checkpoint_list_create(const char *prefix, bool clears, struct checkpoint_list *list)
{
    const char *slash = strrchr(prefix, '/'), *name = slash ? slash + 1 : prefix;
    char *folder = slash ? strndup(prefix, (size_t)(name - prefix)) : strdup("");
    DIR *dir = folder ? opendir(*folder ? folder : "./") : NULL;
    int status = 0;

    *list = (struct checkpoint_list){.entries = NULL};
    if (!dir)
        status = folder ? error_set("cannot look for snapshots in '%s': %s",
                                    *folder ? folder : "./", strerror(errno))
                        : error_memory(strlen(prefix), "a snapshot's name");
    for (const struct dirent *entry; !status && (entry = readdir(dir)) != NULL;) {
        const char *number = number_of(entry->d_name, name);
        int64_t iteration = iteration_of(number);
        if (iteration >= 0)
            status = add_entry(list, folder, entry->d_name, iteration);
        else if (clears && path_ends(number, ".tmp")) /* a killed writer left the file */
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
    free(folder);
    if (list->count > 0)
        qsort(list->entries, (size_t)list->count, sizeof *list->entries, newest_first);
    for (int i = 0; i < list->count; i++)
        if (checkpoint_read_owner(list->entries[i].path, &list->entries[i].owner))
            error_clear(); /* a resume from this state reports the error */
    if (status)
        checkpoint_list_free(list);
    return status;
}

void checkpoint_list_free(struct checkpoint_list *list)
{
    for (int i = 0; i < list->count; i++) {
        free(list->entries[i].path);
        snapshot_owner_free(&list->entries[i].owner);
    }
    free(list->entries);
    *list = (struct checkpoint_list){.entries = NULL};
}
