/* Caffe's tools, by links of their names to this program: arguments in Caffe's order and flags in
 * Caffe's names become those of our commands, which do the rest, messages included. */
#include "commands/commands.h"
#include "commands/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"

enum { MOST_WORDS = 8, MOST_ARGUMENTS = 32 };

/* A command line in the making, and what the tool was given. */
struct call {
    const char *usage;
    char *word[MOST_WORDS + 1]; /* borrowed: those that are no flags */
    int nwords;
    char *argv[MOST_ARGUMENTS + 1]; /* for the command; owned from 1 on */
    int argc;
    const char *width, *height; /* of --resize_width and --resize_height; borrowed */
};

static int add(struct call *call, const char *before, const char *text)
{
    size_t size = strlen(before) + strlen(text) + 1;
    char *copy = call->argc < MOST_ARGUMENTS ? malloc(size) : NULL;

    if (!copy)
        return error_set("too many arguments");
    snprintf(copy, size, "%s%s", before, text);
    call->argv[call->argc++] = copy;
    return 0;
}

/* "--name=value" or "--name value"; NULL: another flag. */
static const char *value_of(const char *flag, const char *name, int argc, char **argv, int *i)
{
    size_t length = strlen(name);

    flag += flag[1] == '-' ? 2 : 1;
    if (strncmp(flag, name, length) != 0)
        return NULL;
    if (flag[length] == '=')
        return flag + length + 1;
    return flag[length] == '\0' && *i + 1 < argc ? argv[++*i] : NULL;
}

/* Flags that have another name or form here; others are passed on as they are. */
static int add_flag(struct call *call, int argc, char **argv, int *i)
{
    static const char *const with_value[] = {"encode_type", "backend", "threads", "quality"};
    const char *flag = argv[*i], *value;

    if ((value = value_of(flag, "resize_width", argc, argv, i))) {
        call->width = value;
        return 0;
    }
    if ((value = value_of(flag, "resize_height", argc, argv, i))) {
        call->height = value;
        return 0;
    }
    for (size_t k = 0; k < sizeof with_value / sizeof *with_value; k++)
        if ((value = value_of(flag, with_value[k], argc, argv, i)))
            return add(call, "--", with_value[k]) || add(call, "", value) ? -1 : 0;
    return add(call, "", flag);
}

/* Between `least` and `most` words, with Caffe's usage where there are others. */
static int read_words(struct call *call, int argc, char **argv, int least, int most)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1]) {
            if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-help") || !strcmp(argv[i], "-h")) {
                printf("usage: %s\n", call->usage);
                return 1;
            }
            if (add_flag(call, argc, argv, &i))
                return -1;
        } else if (call->nwords < MOST_WORDS) {
            call->word[call->nwords++] = argv[i];
        }
    }
    if (call->nwords < least || call->nwords > most)
        return error_set("expected %d%s words, found %d\nusage: %s", least,
                         most > least ? " or more" : "", call->nwords, call->usage);
    return 0;
}

/* ROOT/ LIST DB */
static int convert_imageset(struct call *call, int argc, char **argv)
{
    char size[64];
    bool backend = false;
    int status;

    call->argv[0] = "images";
    status = read_words(call, argc, argv, 3, 3);
    if (status)
        return status;
    for (int i = 1; i < call->argc; i++)
        backend |= !strcmp(call->argv[i], "--backend");
    if (!call->width != !call->height)
        return error_set("--resize_width and --resize_height go together");
    if (call->width && strcmp(call->width, "0") && strcmp(call->height, "0")) {
        snprintf(size, sizeof size, "%sx%s", call->width, call->height);
        if (add(call, "--resize=", size))
            return -1;
    }
    return (!backend && add(call, "", "--backend=lmdb")) || add(call, "--root=", call->word[0]) ||
                   add(call, "", call->word[1]) || add(call, "", call->word[2])
               ? -1
               : 0;
}

/* DB [OUT]; what DB is shows its content, so --backend says nothing new. */
static int compute_image_mean(struct call *call, int argc, char **argv)
{
    int status, kept = 1;

    call->argv[0] = "mean";
    status = read_words(call, argc, argv, 1, 2);
    for (int i = 1; i < call->argc; i++) {
        bool backend = !strcmp(call->argv[i], "--backend");

        if (backend)
            free(call->argv[i + 1]);
        if (backend)
            free(call->argv[i++]);
        else
            call->argv[kept++] = call->argv[i];
    }
    call->argc = kept;
    for (int w = 0; w < call->nwords && !status; w++)
        status = add(call, "", call->word[w]);
    return status;
}

/* IN OUT */
static int upgrade(struct call *call, int argc, char **argv)
{
    int status;

    call->argv[0] = "upgrade";
    status = read_words(call, argc, argv, 2, 2);
    return status ? status : add(call, "", call->word[0]) || add(call, "", call->word[1]) ? -1 : 0;
}

/* WEIGHTS NET BLOBS DATABASES BATCHES FORM [CPU|GPU] [DEVICE] */
static int extract_features(struct call *call, int argc, char **argv)
{
    char *const *word = call->word;
    int status;

    call->argv[0] = "extract";
    status = read_words(call, argc, argv, 6, 8);
    if (status)
        return status;
    if (strcmp(word[5], "lmdb") != 0)
        return error_set("%s is not written: expected lmdb ('poseidon extract' writes HDF5)",
                         word[5]);
    if (call->nwords > 6 && strcmp(word[6], "CPU") && strcmp(word[6], "GPU"))
        return error_set("expected CPU or GPU, found '%s'", word[6]);
    if (call->nwords > 6 && !strcmp(word[6], "GPU") && add(call, "", "--engine=cuda"))
        return -1;
    if (call->nwords > 7 && setenv("CUDA_VISIBLE_DEVICES", word[7], 0))
        return -1;
    return add(call, "--weights=", word[0]) || add(call, "--model=", word[1]) ||
                   add(call, "--blobs=", word[2]) || add(call, "--databases=", word[3]) ||
                   add(call, "--iterations=", word[4])
               ? -1
               : 0;
}

static const struct tool {
    const char *name, *usage;
    int (*translate)(struct call *call, int argc, char **argv);
    int (*run)(int argc, char **argv);
} tools[] = {
    {"convert_imageset",
     "convert_imageset [--gray] [--shuffle] [--backend=lmdb] [--resize_width=W\n"
     "           --resize_height=H] [--check_size] [--encoded] [--encode_type=jpg|png]\n"
     "           ROOT/ LIST DB",
     convert_imageset, command_convert_images},
    {"compute_image_mean", "compute_image_mean [--backend=lmdb] DB [OUT.binaryproto]",
     compute_image_mean, command_mean},
    {"extract_features",
     "extract_features WEIGHTS NET BLOB1,BLOB2 DB1,DB2 BATCHES lmdb [CPU|GPU] [DEVICE]",
     extract_features, command_extract},
    {"upgrade_net_proto_text", "upgrade_net_proto_text IN OUT", upgrade, command_upgrade},
    {"upgrade_solver_proto_text", "upgrade_solver_proto_text IN OUT", upgrade, command_upgrade},
};

bool caffe_tool_run(const char *name, int argc, char **argv, int *status)
{
    struct call call = {.argc = 1};
    const struct tool *tool = NULL;

    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        if (!strcmp(tools[i].name, name))
            tool = &tools[i];
    if (!tool)
        return false;
    call.usage = tool->usage;
    *status = tool->translate(&call, argc, argv);
    if (*status < 0) {
        fprintf(stderr, "%s: %s\n", tool->name, error_text());
        *status = 1;
    } else if (*status > 0) {
        *status = 0;
    } else {
        /* the command moves its words about; what is owned is freed by another list */
        char *owned[MOST_ARGUMENTS + 1];
        memcpy(owned, call.argv, sizeof owned);
        *status = tool->run(call.argc, call.argv);
        memcpy(call.argv, owned, sizeof owned);
    }
    for (int i = 1; i < call.argc; i++)
        free(call.argv[i]);
    return true;
}
