/* Reads Caffe's net and solver files of any age into today's form. */
#include "spec/read.h"

#include "spec/modelfile.h"
#include "spec/upgrade.h"
#include "spec/proto.h"
#include "util/error.h"
#include "util/path.h"
#include "util/file.h"
#include "util/strbuf.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

Caffe__NetParameter *spec_net(const struct text_doc *doc)
{
    return (Caffe__NetParameter *)text_root(doc);
}

Caffe__SolverParameter *spec_solver(const struct text_doc *doc)
{
    return (Caffe__SolverParameter *)text_root(doc);
}

/* Reads the net out of a binary model. */
static int read_binary_net(const char *path, struct text_doc **out)
{
    struct model_file *file;
    int status;

    if (model_file_open(path, &file))
        return -1;
    status = model_file_net(file, out);
    model_file_close(file);
    return status;
}

int spec_check_settings(const struct text_doc *doc)
{
    const Caffe__NetParameter *net = spec_net(doc);

    for (size_t i = 0; i < net->n_layer; i++) {
        const Caffe__LayerParameter *layer = net->layer[i];
        const char *type = layer->type ? layer->type : "", *missing = NULL;

        if (strcmp(type, "Convolution") == 0 && layer->convolution_param == NULL)
            missing = "convolution_param";
        else if (strcmp(type, "InnerProduct") == 0 && layer->inner_product_param == NULL)
            missing = "inner_product_param";
        if (missing != NULL)
            return error_set("%s: not a complete net: its layers lack their settings (layer '%s' "
                             "has no %s); give its prototxt",
                             text_name(doc), layer->name ? layer->name : "", missing);
    }
    return 0;
}

int spec_read_net_of(const char *path, text_check_type *check_type, bool drop_idle,
                     struct text_doc **out)
{
    struct text_doc *doc;
    bool binary;

    if (file_is_hdf5(path)) /* an HDF5 model holds weights only */
        return error_set("%s: expected a net, found an HDF5 file, which holds weights or data but "
                         "no layer definitions",
                         path);
    binary = proto_is_binary(path);
    if (binary ? read_binary_net(path, &doc)
               : text_read_file_of(path, &caffe__net_parameter__descriptor, check_type, drop_idle,
                                   &doc))
        return binary ? -1 : spec_kind_error(path, false);
    if (upgrade_net(spec_net(doc), doc)) {
        text_free(doc);
        return -1;
    }
    *out = doc;
    return 0;
}

int spec_complete_prefix(Caffe__SolverParameter *solver, const char *path)
{
    const char *base = path_base(path), *dot = strrchr(base, '.'), *given = solver->snapshot_prefix;
    size_t stem = dot != NULL && dot != base ? (size_t)(dot - base) : strlen(base);
    struct strbuf prefix = {0};
    char *text;

    if (given != NULL && given[0] != '\0') {
        size_t length = strlen(given);

        if (!path_is_folder(given))
            return 0;
        strbuf_printf(&prefix, "%s%s", given, given[length - 1] == '/' ? "" : "/");
    } else {
        strbuf_append(&prefix, path, (size_t)(base - path));
    }
    strbuf_append(&prefix, base, stem);
    if ((text = strbuf_take(&prefix)) == NULL)
        return -1;
    free(solver->snapshot_prefix);
    solver->snapshot_prefix = text;
    return 0;
}

int spec_read_solver_with(const char *path, const struct spec_overrides *overrides,
                          struct text_doc **out)
{
    struct text_doc *doc;

    if (text_read_file(path, &caffe__solver_parameter__descriptor, &doc))
        return spec_kind_error(path, true);
    if (spec_override(doc, overrides) || upgrade_solver(spec_solver(doc), doc) ||
        spec_complete_prefix(spec_solver(doc), path)) {
        text_free(doc);
        return -1;
    }
    *out = doc;
    return 0;
}

/* Sets the error for a missing file. beside: the second path tried, or NULL. */
static int not_found(const char *path, const char *beside)
{
    return beside ? error_set("%s: no such file (nor %s)", path, beside) : path_missing(path);
}

int spec_find_file(const char *path, const char *relative_to_file, char **out)
{
    bool found;
    char *beside;
    int status;

    *out = path_find(path, relative_to_file, &found);
    if (!*out || found)
        return *out ? 0 : -1;
    free(*out);
    *out = NULL;
    beside = path_beside(path, relative_to_file);
    status = beside ? not_found(path, strcmp(beside, path) ? beside : NULL) : -1;
    free(beside);
    return status;
}
