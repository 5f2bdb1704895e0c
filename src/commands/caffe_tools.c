/* Caffe's tools, by links of their names to this program: arguments in Caffe's order and flags in
 * Caffe's names become those of our commands, which do the rest, messages included. */
#include "commands/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/options.h"
#include "util/error.h"

enum { MOST_WORDS = 8, MOST_ARGUMENTS = 32 };

/* A command line in the making, and what the tool was given. */
struct call {
    const struct tool *tool;
    char *word[MOST_WORDS]; /* borrowed: those that are no flags */
    int nwords;
    int first_word, end_words;      /* those that the command is given as they are */
    char *argv[MOST_ARGUMENTS + 1]; /* for the command; owned from 1 on */
    int argc;
    const char *width, *height,
        *backend; /* of --resize_width, --resize_height, --backend; borrowed */
};

struct tool {
    const char *name, *usage, *command;
    int least, most; /* words */
    /* Adds what else the command is told, and words that become options; NULL: nothing. */
    int (*finish)(struct call *call);
    int (*run)(int argc, char **argv);
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
    static const char *const with_value[] = {"encode_type", "threads", "quality"};
    const char *flag = argv[*i], *value;

    if ((value = value_of(flag, "resize_width", argc, argv, i)))
        return call->width = value, 0;
    if ((value = value_of(flag, "resize_height", argc, argv, i)))
        return call->height = value, 0;
    if ((value = value_of(flag, "backend", argc, argv, i)))
        return call->backend = value, 0;
    for (size_t k = 0; k < sizeof with_value / sizeof *with_value; k++)
        if ((value = value_of(flag, with_value[k], argc, argv, i)))
            return error_any(add(call, "--", with_value[k]) || add(call, "", value));
    return add(call, "", flag);
}

/* Flags, then words. Returns OPTIONS_HELPED where the usage was asked for, and printed. */
static int translate(struct call *call, int argc, char **argv)
{
    const struct tool *tool = call->tool;

    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1]) {
            if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-help") || !strcmp(argv[i], "-h")) {
                printf("usage: %s\n", tool->usage);
                return OPTIONS_HELPED;
            }
            if (add_flag(call, argc, argv, &i))
                return -1;
        } else if (call->nwords++ < MOST_WORDS) {
            call->word[call->nwords - 1] = argv[i];
        }
    }
    if (call->nwords < tool->least || call->nwords > tool->most)
        return error_set("expected %d%s words, found %d\nusage: %s", tool->least,
                         tool->most > tool->least ? " or more" : "", call->nwords, tool->usage);
    call->end_words = call->nwords;
    if (tool->finish && tool->finish(call))
        return -1;
    for (int w = call->first_word; w < call->end_words; w++)
        if (add(call, "", call->word[w]))
            return -1;
    return 0;
}

static int finish_convert(struct call *call)
{
    char size[64];

    if (!call->width != !call->height)
        return error_set("--resize_width and --resize_height go together");
    if (call->width && strcmp(call->width, "0") && strcmp(call->height, "0")) {
        snprintf(size, sizeof size, "%sx%s", call->width, call->height);
        if (add(call, "--resize=", size))
            return -1;
    }
    call->first_word = 1;
    return error_any(add(call, "--root=", call->word[0]) ||
                     add(call, "--backend=", call->backend ? call->backend : "lmdb"));
}

static int finish_extract(struct call *call)
{
    static const char *const options[] = {
        "--weights=", "--model=", "--blobs=", "--databases=", "--iterations="};
    char *const *word = call->word;

    if (strcmp(word[5], "lmdb") != 0)
        return error_set("%s is not written: expected lmdb ('poseidon extract' writes HDF5)",
                         word[5]);
    if (call->nwords > 6 && strcmp(word[6], "CPU") && strcmp(word[6], "GPU"))
        return error_set("expected CPU or GPU, found '%s'", word[6]);
    if (call->nwords > 6 && !strcmp(word[6], "GPU") && add(call, "", "--engine=cuda"))
        return -1;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (add(call, options[i], word[i]))
            return -1;
    call->end_words = 0;
    return call->nwords > 7 && setenv("CUDA_VISIBLE_DEVICES", word[7], 0) ? -1 : 0;
}

/* Caffe's tools that write a single file replace what is there, and those that write a data base
 * do not. */
static int finish_file(struct call *call)
{
    return add(call, "", "--force");
}

/* What compute_image_mean's DB is shows its content: --backend says nothing new. */
static const struct tool tools[] = {
    {"convert_imageset",
     "convert_imageset [--gray] [--shuffle] [--backend=lmdb] [--resize_width=W\n"
     "           --resize_height=H] [--check_size] [--encoded] [--encode_type=jpg|png]\n"
     "           ROOT/ LIST DB",
     "images", 3, 3, finish_convert, command_convert_images},
    {"compute_image_mean", "compute_image_mean [--backend=lmdb] DB [OUT.binaryproto]", "mean", 1, 2,
     finish_file, command_mean},
    {"extract_features",
     "extract_features WEIGHTS NET BLOB1,BLOB2 DB1,DB2 BATCHES lmdb [CPU|GPU] [DEVICE]", "extract",
     6, 8, finish_extract, command_extract},
    {"upgrade_net_proto_text", "upgrade_net_proto_text IN OUT", "upgrade", 2, 2, finish_file,
     command_upgrade},
    {"upgrade_solver_proto_text", "upgrade_solver_proto_text IN OUT", "upgrade", 2, 2, finish_file,
     command_upgrade},
};

bool caffe_tool_run(const char *name, int argc, char **argv, int *status)
{
    struct call call = {.argc = 1};
    char *owned[MOST_ARGUMENTS + 1];

    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        if (!strcmp(tools[i].name, name))
            call.tool = &tools[i];
    if (!call.tool)
        return false;
    call.argv[0] = (char *)call.tool->command;
    *status = translate(&call, argc, argv);
    memcpy(owned, call.argv, sizeof owned); /* the command moves its words about */
    if (!*status)
        *status = call.tool->run(call.argc, call.argv);
    if (*status < 0)
        fprintf(stderr, "%s: %s\n", name, error_text());
    *status = *status < 0 ? 1 : *status == OPTIONS_HELPED ? 0 : *status;
    for (int i = 1; i < call.argc; i++)
        free(owned[i]);
    return true;
}
