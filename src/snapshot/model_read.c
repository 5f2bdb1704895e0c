/* Reading a model: first everything is compared with the net, then values are read. */
#include "snapshot/snapshot_internal.h"

#include "snapshot/checksum.h"
#include "util/error.h"
#include "util/strbuf.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NESTING 16 /* of groups, against files whose groups contain themselves */

/* A layer as the file has it. */
struct source {
    char *name; /* path below `data` */
    int nblobs; /* data sets in its group */
    bool used;
};

struct sources {
    struct source *list;
    int count, capacity;
    int failed;
};

/* One level of the walk over the groups below `data`. */
struct walk {
    struct sources *sources;
    const char *prefix; /* path of this group below `data`, "" at the top */
    int depth;
    int ndatasets, ngroups; /* its children */
};

static void sources_free(struct sources *sources)
{
    for (int i = 0; i < sources->count; i++)
        free(sources->list[i].name);
    free(sources->list);
}

static int sources_add(struct sources *sources, const char *name, int nblobs)
{
    if (sources->count == sources->capacity) {
        int capacity = sources->capacity ? 2 * sources->capacity : 32;
        struct source *list = realloc(sources->list, (size_t)capacity * sizeof *list);

        if (list == NULL)
            return error_memory((size_t)capacity * sizeof *list, "the layers of a snapshot");
        sources->list = list;
        sources->capacity = capacity;
    }
    sources->list[sources->count] = (struct source){strdup(name), nblobs, false};
    if (sources->list[sources->count].name == NULL)
        return error_memory(strlen(name) + 1, "a layer's name");
    sources->count++;
    return 0;
}

static herr_t walk_visit(hid_t group, const char *name, const H5L_info_t *info, void *data);

/* A group is a layer where it has data sets, or nothing below it. */
static int walk_group(hid_t group, struct sources *sources, const char *prefix, int depth)
{
    struct walk walk = {sources, prefix, depth, 0, 0};

    if (depth > MAX_NESTING)
        return error_set("groups nested more than %d deep at 'data/%s'", MAX_NESTING, prefix);
    if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, walk_visit, &walk) < 0) {
        char reason[512];

        if (!sources->failed)
            error_set("group 'data/%s' cannot be read (%s)", prefix,
                      h5_reason(reason, sizeof reason));
        sources->failed = -1;
        return -1;
    }
    if (depth > 0 && (walk.ndatasets > 0 || walk.ngroups == 0))
        return sources_add(sources, prefix, walk.ndatasets);
    return 0;
}

static herr_t walk_visit(hid_t group, const char *name, const H5L_info_t *info, void *data)
{
    struct walk *walk = data;
    struct strbuf path = {0};
    hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    int status = object < 0 ? -1 : 0;

    (void)info;
    if (status == 0 && H5Iget_type(object) == H5I_DATASET) {
        walk->ndatasets++;
    } else if (status == 0 && H5Iget_type(object) == H5I_GROUP) {
        walk->ngroups++;
        strbuf_printf(&path, "%s%s%s", walk->prefix, walk->prefix[0] ? "/" : "", name);
        status = strbuf_status(&path) ||
                 walk_group(object, walk->sources, strbuf_text(&path), walk->depth + 1);
        if (status)
            walk->sources->failed = -1;
    }
    if (object >= 0)
        H5Oclose(object);
    strbuf_free(&path);
    return status ? -1 : 0;
}

/* Other writers replace the slash that HDF5 cannot have in a name: by another character or %2F. */
static bool is_escaped_form(const char *name, const char *source)
{
    for (; *name && *source; name++) {
        if (*name != '/') {
            if (*name != *source)
                return false;
            source++;
        } else if (strncasecmp(source, "%2F", 3) == 0) {
            source += 3;
        } else if (isalnum((unsigned char)*source)) {
            return false;
        } else {
            source++;
        }
    }
    return *name == *source;
}

static bool net_has_layer(const struct snapshot_layer *layers, int nlayers, const char *name)
{
    for (int i = 0; i < nlayers; i++)
        if (strcmp(layers[i].name, name) == 0)
            return true;
    return false;
}

/* The part of the file that belongs to a layer, or NULL. */
static struct source *find_source(struct sources *sources, const struct snapshot_layer *layers,
                                  int nlayers, const char *name)
{
    for (int i = 0; i < sources->count; i++)
        if (strcmp(sources->list[i].name, name) == 0)
            return &sources->list[i];
    for (int i = 0; strchr(name, '/') && i < sources->count; i++)
        if (is_escaped_form(name, sources->list[i].name) &&
            !net_has_layer(layers, nlayers, sources->list[i].name))
            return &sources->list[i];
    return NULL;
}

static bool owns_blobs(const struct snapshot_layer *layer)
{
    for (int i = 0; i < layer->nblobs; i++)
        if (!layer->blobs[i].shared)
            return true;
    return false;
}

static int check_or_read_param(hid_t file, const char *path, const struct source *source,
                               const struct snapshot_layer *layer, int i, bool read)
{
    const struct snapshot_blob *blob = &layer->blobs[i];
    char from[128], to[128];
    struct strbuf name = {0};
    struct h5_dataset dataset;
    struct shape found;
    bool mismatch;
    int status = -1;

    strbuf_printf(&name, "data/%s/%d", source->name, i);
    if (strbuf_status(&name))
        goto done;
    if (snapshot_open_blob(file, path, strbuf_text(&name), blob, &dataset, &found, &mismatch)) {
        if (mismatch)
            error_set("%s: Cannot copy param %d weights from layer '%s'; shape mismatch.  Source "
                      "param shape is %s; target param shape is %s. To learn this layer's "
                      "parameters from scratch rather than copying from a saved net, rename the "
                      "layer.",
                      path, i, layer->name, shape_text(&found, from, sizeof from),
                      shape_text(blob->shape, to, sizeof to));
        goto done;
    }
    status = read ? h5_dataset_read_all(&dataset, H5T_NATIVE_FLOAT, blob->data) : 0;
    h5_dataset_close(&dataset);

done:
    strbuf_free(&name);
    return status;
}

static int wrong_count(const char *path, const struct source *source,
                       const struct snapshot_layer *layer)
{
    return error_set(
        "%s: Incompatible number of blobs for layer %s: the file has %d, the net has %d", path,
        layer->name, source->nblobs, layer->nblobs);
}

static int check_layer(hid_t file, const char *path, const struct source *source,
                       const struct snapshot_layer *layer)
{
    char name[16];
    struct strbuf group = {0};
    int status = 0;

    if (source->nblobs > layer->nblobs)
        return wrong_count(path, source, layer);
    for (int i = 0; i < layer->nblobs && status == 0; i++) {
        if (layer->blobs[i].shared)
            continue;
        snprintf(name, sizeof name, "/%d", i);
        strbuf_clear(&group);
        strbuf_printf(&group, "data/%s%s", source->name, name);
        if (strbuf_status(&group))
            status = -1;
        else if (H5Lexists(file, strbuf_text(&group), H5P_DEFAULT) <= 0)
            status = wrong_count(path, source, layer);
        else
            status = check_or_read_param(file, path, source, layer, i, false);
    }
    strbuf_free(&group);
    return status;
}

/* Whether another layer of that name has the parameters: the file knows only one of the two. */
static bool name_owns_blobs(const struct snapshot_layer *layers, int nlayers, int layer)
{
    for (int i = 0; i < nlayers; i++)
        if (owns_blobs(&layers[i]) && strcmp(layers[i].name, layers[layer].name) == 0)
            return true;
    return false;
}

int snapshot_report_add(char ***names, int *count, const char *name)
{
    char **longer = realloc(*names, (size_t)(*count + 1) * sizeof *longer);

    if (longer == NULL)
        return error_memory((size_t)(*count + 1) * sizeof *longer, "a list of layers");
    *names = longer;
    longer[*count] = strdup(name);
    if (longer[*count] == NULL)
        return error_memory(strlen(name) + 1, "a layer's name");
    ++*count;
    return 0;
}

static int match_layers(hid_t file, const char *path, struct sources *sources,
                        const struct snapshot_layer *layers, int nlayers,
                        struct snapshot_report *report)
{
    for (int i = 0; i < nlayers; i++) {
        struct source *source = find_source(sources, layers, nlayers, layers[i].name);

        if (source)
            source->used = true;
        if (!owns_blobs(&layers[i]) && (source == NULL || name_owns_blobs(layers, nlayers, i)))
            continue;
        if (source == NULL) {
            if (snapshot_report_add(&report->missing, &report->nmissing, layers[i].name))
                return -1;
            continue;
        }
        if (check_layer(file, path, source, &layers[i]))
            return -1;
    }
    for (int i = 0; i < sources->count; i++)
        if (!sources->list[i].used &&
            snapshot_report_add(&report->ignored, &report->nignored, sources->list[i].name))
            return -1;
    return 0;
}

static int read_layers(hid_t file, const char *path, struct sources *sources,
                       const struct snapshot_layer *layers, int nlayers)
{
    for (int i = 0; i < nlayers; i++) {
        struct source *source = find_source(sources, layers, nlayers, layers[i].name);

        for (int b = 0; source && b < layers[i].nblobs; b++)
            if (!layers[i].blobs[b].shared &&
                check_or_read_param(file, path, source, &layers[i], b, true))
                return error_context("layer '%s'", layers[i].name);
    }
    return 0;
}

static int open_model_data(hid_t file, const char *path, hid_t *data)
{
    char reason[512];

    *data = -1;
    if (!snapshot_has(file, "data") && snapshot_has(file, "iter") && snapshot_has(file, "history"))
        return error_set("%s is a solver state, not a model: give it to --snapshot, or give the "
                         ".caffemodel.h5 that belongs to it",
                         path);
    if (!snapshot_has(file, "data"))
        return error_set("%s is not a model: it has no group 'data'", path);
    *data = H5Gopen2(file, "data", H5P_DEFAULT);
    if (*data < 0)
        return error_set("%s is not a model: 'data' is not a group (%s)", path,
                         h5_reason(reason, sizeof reason));
    return 0;
}

int snapshot_read_model(const char *path, const struct snapshot_layer *layers, int nlayers,
                        struct snapshot_report *report)
{
    struct snapshot_report found = {0};
    struct sources sources = {0};
    hid_t file = -1, data = -1;
    int status = -1;

    if (report)
        *report = found;
    if (snapshot_is_binary(path))
        return snapshot_read_model_binary(path, layers, nlayers, report);
    if (seal_check(path))
        return -1;
    h5_lock();
    if (h5_file_open(path, &file) || open_model_data(file, path, &data))
        goto done;
    if (walk_group(data, &sources, "", 0)) {
        error_context("%s", path);
        goto done;
    }
    if (match_layers(file, path, &sources, layers, nlayers, &found) ||
        read_layers(file, path, &sources, layers, nlayers))
        goto done;
    status = 0;

done:
    if (data >= 0)
        H5Gclose(data);
    if (file >= 0)
        H5Fclose(file);
    h5_unlock();
    sources_free(&sources);
    if (status == 0 && report)
        *report = found;
    else
        snapshot_report_free(&found);
    return status;
}

void snapshot_report_free(struct snapshot_report *report)
{
    for (int i = 0; i < report->nignored; i++)
        free(report->ignored[i]);
    for (int i = 0; i < report->nmissing; i++)
        free(report->missing[i]);
    free(report->ignored);
    free(report->missing);
    *report = (struct snapshot_report){0};
}
