/* poseidon export: a net with its weights as ONNX. */
#include "commands/commands.h"
#include "commands/model.h"
#include "commands/options.h"
#include "commands/output_guard.h"

#include <stdio.h>

#include "export/export.h"
#include "snapshot/checkpoint.h"
#include "util/error.h"
#include "util/units.h"

/* "data (N x 3 x 227 x 227)" */
static void print_ends(const char *what, size_t n, Onnx__ValueInfoProto *const *ends)
{
    for (size_t i = 0; i < n; i++) {
        const Onnx__TensorShapeProto *shape = ends[i]->type->tensor_type->shape;

        printf("%s%s (", i > 0 ? ", " : what, ends[i]->name);
        for (size_t a = 0; a < shape->n_dim; a++)
            if (shape->dim[a]->dim_param)
                printf("%s", shape->dim[a]->dim_param);
            else
                printf("%s%lld", a > 0 ? " x " : "", (long long)shape->dim[a]->dim_value);
        printf(")");
    }
}

static void print_report(const char *path, const struct onnx *made)
{
    const Onnx__GraphProto *graph = &made->main;

    printf("%s: %s, ONNX opset %d", path, units_count((long long)graph->n_node, "node").text,
           ONNX_OPSET);
    print_ends("; from ", graph->n_input, graph->input);
    print_ends(" to ", graph->n_output, graph->output);
    printf("\n");
}

static int load(struct model *model, const char *weights)
{
    struct log log;

    log_init(&log, true, stderr, NULL);
    return error_status(
        engine_open("cpu", &(struct engine_options){.threads = 1}, &model->engine) ||
        net_hold(model->net, &model->engine) ||
        checkpoint_load_weights(weights, true, model->net, &log));
}

/* Names of classes and what images go through, of the net's data or, where that is not here, as the
 * weights say. */
static int note_data(const struct net *net, const char *weights, struct onnx *made)
{
    struct snapshot_owner data, told = {.run = NULL};
    int status = error_status(checkpoint_describe_data(net, &data) ||
                              checkpoint_read_weights_owner(weights, &told));
    const char *classes = data.classes ? data.classes : told.classes;
    const char *preparation = data.preparation ? data.preparation : told.preparation;

    if (!status && classes)
        onnx_note(made, "classes", classes);
    if (!status && preparation) {
        onnx_note(made, "preprocessing", preparation);
        onnx_note(made, "channel_order", "BGR");
    }
    snapshot_owner_free(&data);
    snapshot_owner_free(&told);
    return status;
}

static int export(const struct model_options *o, const struct export_options *options,
                  const char *path, bool force)
{
    static const char *const ends[] = {".onnx", NULL};
    const char *const inputs[] = {o->model, o->weights};
    struct onnx made = {.failed = false};
    struct model model;
    int status;

    if (output_check(path, force, 2, inputs) || output_check_ending(path, ends) ||
        model_open(o, &model))
        return -1;
    status = load(&model, o->weights);
    if (!status)
        model_print_notices(&model);
    status = error_status(status || export_net(model.net, options, &made) ||
                          note_data(model.net, o->weights, &made) || onnx_save(&made, path));
    if (!status)
        print_report(path, &made);
    onnx_free(&made);
    model_close(&model);
    return status;
}

int command_export(int argc, char **argv)
{
    struct model_options o = {.phase = "TEST", .look_only = true};
    struct export_options options = {.preprocess = false};
    int status;
    bool force = false;
    const struct option rows[] = {
        {"preprocess", OPTION_FLAG, &options.preprocess, NULL,
         "put the mean and scale of the net's data layer in front: the input is then pixels, 0 to "
         "255, cropped, blue before green before red"},
        {"batch", OPTION_COUNT, &o.batch, "N",
         "samples of a batch (default: any number; 1 if the net joins or cuts samples)"},
        {"force", OPTION_FLAG, &force, NULL, "replace OUT.onnx if it exists"},
    };
    const struct command_line line = {
        .command = "export",
        .synopsis = "--model=FILE --weights=FILES OUT.onnx",
        .example = "  poseidon export --model=net.prototxt --weights=net.caffemodel net.onnx",
        .net_rows = "model weights stage level input-shape",
        .net = &o,
        OPTION_ROWS(rows),
        .least_words = 1,
        .max_words = 1,
        .expected = "expected one file to write, OUT.onnx",
        .about = "Writes the TEST phase of a net with its weights as ONNX, for onnxruntime and "
                 "other programs: each layer as nodes of the same values. Data layers become "
                 "inputs; a softmax loss becomes a softmax, other losses and scores are left out. "
                 "A layer that ONNX cannot express is refused by name. Names of "
                 "classes and what images go through, where the data or the weights tell them, "
                 "are metadata.",
    };

    status = options_parse(&line, argc, argv, NULL);
    if (status)
        return status;
    options.fixed_batch = o.batch > 0;
    options.base_file = o.model;
    if (o.batch == 0)
        o.batch = 1;
    return export(&o, &options, argv[1], force);
}
