/* poseidon convert weights: writes a model's weights in another file format. */
#include "commands/commands.h"
#include "commands/options.h"
#include "commands/output_guard.h"

#include <stdio.h>

#include "snapshot/weights.h"
#include "util/error.h"
#include "util/units.h"

static int convert(const char *in, const char *out, bool force)
{
    struct weights weights;
    int nblobs = 0, status;

    if (output_check(out, force, 1, &in) || output_check_ending(out, weights_ends))
        return -1;
    status = error_status(weights_read(in, &weights) || weights_write(&weights, out));
    for (int i = 0; i < weights.nlayers; i++)
        for (int b = 0; b < weights.layers[i].nblobs; b++)
            nblobs += !weights.layers[i].blobs[b].shared;
    if (!status)
        printf("%s: %s of %s\n", out, units_count(nblobs, "parameter").text,
               units_count(weights.nlayers, "layer").text);
    weights_free(&weights);
    return status;
}

int command_convert_weights(int argc, char **argv)
{
    bool force = false;
    const struct option options[] = {
        {"force", OPTION_FLAG, &force, NULL, "replace OUT if it exists"},
    };
    const struct command_line line = {
        .command = "convert",
        .synopsis = "weights IN OUT [--force]",
        .example = "  poseidon convert weights net.caffemodel net.caffemodel.h5",
        OPTION_ROWS(options),
        .least_words = 2,
        .max_words = 2,
        .expected = "expected two files, IN and OUT",
        .about = "Writes a model's weights in the form of OUT's ending, .caffemodel or "
                 ".caffemodel.h5. All values keep their bits. OUT also keeps IN's net definition, "
                 "run name, class names and preprocessing of images.",
    };

    int status = options_parse(&line, argc, argv, NULL);

    return status ? status : convert(argv[1], argv[2], force);
}
