/* poseidon upgrade: writes a net or solver in the form of today's Caffe. */
#include "commands/commands.h"
#include "commands/options.h"
#include "commands/output_guard.h"

#include <stdio.h>

#include "layers/layer.h"
#include "spec/print.h"
#include "spec/proto.h"
#include "spec/read.h"
#include "spec/upgrade.h"
#include "util/error.h"
#include "util/file.h"
#include "util/path.h"

/* Reads a solver; snapshot_prefix stays as written, for it is completed from the path of use. */
static int read_solver(const char *path, struct text_doc **out)
{
    if (text_read_file_of(path, &caffe__solver_parameter__descriptor, NULL, true, out))
        return -1;
    if (upgrade_solver(spec_solver(*out), *out)) {
        text_free(*out);
        return -1;
    }
    return 0;
}

static int upgrade(const char *in, const char *out, bool force)
{
    struct strbuf text = {0};
    struct text_doc *doc;
    bool binary, solver = false;
    int status;

    if (path_ends(out, ".caffemodel") || path_ends(out, ".h5"))
        return error_set(
            "%s: the new form is written as text, without weights; expected a name such "
            "as net.prototxt",
            out);
    if (output_check(out, force, 1, &in))
        return -1;
    binary = proto_is_binary(in);
    if (!binary && spec_is_solver(in, &solver))
        return -1;
    if (solver ? read_solver(in, &doc) : spec_read_net_of(in, layer_check_type, true, &doc))
        return -1;
    if (binary && spec_check_settings(doc)) {
        text_free(doc);
        return -1;
    }
    fputs(text_notices(doc), stderr);
    print_message(&text, text_root(doc));
    status = file_write_text(out, &text);
    if (status == 0)
        fprintf(stderr, "%s: written as a %s in today's form\n", out, solver ? "solver" : "net");
    text_free(doc);
    return status;
}

int command_upgrade(int argc, char **argv)
{
    bool force = false;
    const struct option options[] = {
        {"force", OPTION_FLAG, &force, NULL, "replace OUT if it exists"},
    };
    const struct command_line line = {
        .command = "upgrade",
        .synopsis = "IN OUT [--force]",
        .example = "  poseidon upgrade old.prototxt new.prototxt",
        OPTION_ROWS(options),
        .least_words = 2,
        .max_words = 2,
        .expected = "expected two files, IN and OUT",
        .about = "Writes a net or a solver in the form of today's Caffe. IN has an old form "
                 "(layers { type: CONVOLUTION }, layers { layer { type: \"conv\" } }, net-level "
                 "input fields, solver_type), or is a binary model (.caffemodel): only its net is "
                 "written. Forks' fields for speed or files are left out. Each change is reported. "
                 "Comments are not kept.",
    };

    int status = options_parse(&line, argc, argv, NULL);

    return status ? status : upgrade(argv[1], argv[2], force);
}
