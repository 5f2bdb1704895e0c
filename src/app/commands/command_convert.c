/* poseidon convert: makes data from images, or converts weights to Caffe's other form. */
#include "commands/commands.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/error.h"
#include "util/suggest.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} kinds[] = {{"images", command_convert_images}, {"weights", command_convert_weights}};

enum { NKINDS = sizeof kinds / sizeof *kinds };

static int kind_unknown(const char *kind)
{
    struct suggest suggest = suggest_start(kind);

    if (!strcmp(kind, "mnist") || !strcmp(kind, "cifar10"))
        return error_set("'convert %s' is a tool now: python3 tools/make_sets.py %s SRC DST.h5 "
                         "(installed in share/poseidon/tools)",
                         kind, kind);
    for (int i = 0; i < NKINDS; i++)
        suggest_offer(&suggest, kinds[i].name);
    if (access(kind, F_OK) == 0)
        return error_set("'%s' is a path: expected images or weights as the first word (sets in "
                         "LMDB, LevelDB or HDF5 need no conversion: Data layers read all three)",
                         kind);
    return error_set("unknown kind of data '%s'%s%s%s (expected images or weights as the first "
                     "word)",
                     kind, suggest.nearest ? "; did you mean " : "",
                     suggest.nearest ? suggest.nearest : "", suggest.nearest ? "?" : "");
}

int command_convert(int argc, char **argv)
{
    char help[] = "--help", name[16];
    char *arguments[] = {name, help, NULL};

    if (argc < 2)
        return error_set("expected a kind (images or weights), SRC and DST");
    for (int i = 0; i < NKINDS; i++)
        if (!strcmp(argv[1], kinds[i].name))
            return kinds[i].run(argc - 1, argv + 1);
    if (argv[1][0] != '-')
        return kind_unknown(argv[1]);
    if (strcmp(argv[1], "--help") && strcmp(argv[1], "-help") && strcmp(argv[1], "-h"))
        return error_set("%s: expected a kind (images or weights) as the first word", argv[1]);
    for (int i = 0; i < NKINDS; i++) {
        snprintf(name, sizeof name, "%s", kinds[i].name);
        printf("%s", i ? "\n" : "");
        kinds[i].run(2, arguments);
    }
    return 0;
}
