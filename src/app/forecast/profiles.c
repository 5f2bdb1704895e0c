/* Finds models/profiles/DEVICE-NET.csv, wherever the folder models is. */
#define _GNU_SOURCE
#include "forecast/profiles.h"

#include "engine/replay/profile.h"
#include "util/alloc.h"
#include "util/path.h"
#include "util/strbuf.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_device(const char *text)
{
    static const char devices[] = ", " PROFILES_DEVICES ",";
    char word[16];

    if (strlen(text) > 8 || strpbrk(text, ", "))
        return false;
    stpcpy(stpcpy(stpcpy(word, " "), text), ",");
    return strstr(devices, word) != NULL;
}

enum { FOLDERS = 3 };

/* Appends a folder of profiles: beside the model's, in the build's source, in the installation. */
static void put_folder(struct strbuf *out, int number, const char *model)
{
    static const char *const folders[FOLDERS] = {"../profiles/", "../models/profiles/",
                                                 "../share/poseidon/models/profiles/"};
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    const char *from = number == 0 ? model : program;

    program[length > 0 ? length : 0] = '\0';
    strbuf_append(out, from, (size_t)(path_base(from) - from));
    strbuf_puts(out, folders[number]);
}

/* Returns the name of the folder that holds the model. The caller frees the name. */
static char *net_of(const char *model)
{
    char *slash;

    slash = strrchr(model, '/');
    for (const char *at = slash ? slash : model; at > model; at--)
        if (at[-1] == '/')
            return strndup(at, (size_t)(slash - at));
    return strdup("");
}

static int find_device(const char *device, const char *model, char **file)
{
    struct strbuf path = {0};
    char *net = net_of(model);
    bool found = false;
    int status = net ? 0 : -1;

    for (int i = 0; i < FOLDERS && !status && !found; i++) {
        strbuf_clear(&path);
        put_folder(&path, i, model);
        strbuf_printf(&path, "%s-%s.csv", device, net);
        status = strbuf_status(&path);
        found = !status && access(path.data, F_OK) == 0;
    }
    if (!status && !found)
        status = error_set("profile %s: no times of the net '%s' on that device: %s-%s.csv is not "
                           "in models/profiles; measure with \"poseidon time --profile=FILE\" and "
                           "give the FILE",
                           device, net, device, net);
    *file = status ? NULL : strbuf_take(&path);
    strbuf_free(&path);
    free(net);
    return *file ? 0 : -1;
}

/* Gets the batch with which a profile was timed; 0: the file does not say. */
static int read_batch(const char *file, int *batch)
{
    struct profile profile;

    if (profile_read(file, &profile))
        return -1;
    *batch = profile.batch;
    profile_free(&profile);
    return 0;
}

int profiles_check_batch(const char *file, int batch)
{
    int timed;

    if (read_batch(file, &timed))
        return -1;
    return timed == 0 || timed == batch
               ? 0
               : error_set(
                     "%s holds the times of a batch of %d samples a pass, and here a pass takes %d "
                     "samples: give --batch=%d, or --batch=%d to \"poseidon time --profile\"",
                     file, timed, batch, timed, batch);
}

int profiles_find(const char *text, const char *model, char **file, int *batch)
{
    char *real;
    int status;

    *file = NULL;
    if (!is_device(text)) {
        if (!strpbrk(text, "/.") && access(text, F_OK) != 0)
            return error_set("profile %s is neither a device (" PROFILES_DEVICES ") nor a file",
                             text);
        return alloc_text(file, text, "a profile's name");
    }
    real = realpath(model, NULL);
    status = find_device(text, real ? real : model, file);
    free(real);
    return status || *batch > 0 ? status : read_batch(*file, batch);
}
