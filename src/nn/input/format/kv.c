/* Opens a data base by its kind, LMDB or LevelDB. */
#include "input/format/kv.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool file_inside(const char *folder, const char *name)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* Returns true if the file has the magic number of LMDB's first meta page, in either byte order. */
static bool begins_like_lmdb(const char *path)
{
    static const uint8_t magic[4] = {0xde, 0xc0, 0xef, 0xbe}, swapped[4] = {0xbe, 0xef, 0xc0, 0xde};
    uint8_t head[20];
    FILE *file = fopen(path, "rb");
    bool whole = file && fread(head, 1, sizeof head, file) == sizeof head;

    if (file)
        fclose(file);
    return whole && (memcmp(head + 16, magic, 4) == 0 || memcmp(head + 16, swapped, 4) == 0);
}

int kv_open(const char *path, struct kv **out)
{
    struct stat st;
    bool there = stat(path, &st) == 0, folder = there && S_ISDIR(st.st_mode);

    *out = NULL;
    if (folder ? file_inside(path, "data.mdb")
               : there && S_ISREG(st.st_mode) && begins_like_lmdb(path))
        return kv_open_lmdb(path, out);
    return folder && file_inside(path, "CURRENT") ? kv_open_leveldb(path, out) : 0;
}
