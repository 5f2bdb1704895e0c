/* Files that a solver and its nets name outside of the folder that the user works in and of the
 * solver's own: nothing is refused, but nobody who trains a stranger's net should have to read it
 * all to learn where it reads and writes. */
#include "train/output.h"

#include "spec/field.h"
#include "util/path.h"
#include "util/suggest.h"

#include <stdlib.h>
#include <string.h>

struct places {
    char *here, *solver; /* canonical names of both folders; NULL where there is none */
    const char *solver_file;
};

static bool is_below(const char *path, const char *folder)
{
    size_t length = folder ? strlen(folder) : 0;

    return length > 0 && !strncmp(path, folder, length) &&
           (path[length] == '/' || !path[length] || folder[length - 1] == '/');
}

/* The canonical name of a file, or of the folder where it would be; NULL: there is neither. */
static char *canonical(const char *path)
{
    char *folder, *name = realpath(path, NULL);

    if (name)
        return name;
    folder = path_folder(path);
    name = folder ? realpath(folder, NULL) : NULL;
    free(folder);
    return name;
}

static void look_at(const struct job *job, const struct places *places, const char *what,
                    const char *path)
{
    char *found, *name;

    if (!path || !path[0])
        return;
    found = path_find(path, places->solver_file, NULL);
    name = found ? canonical(found) : NULL;
    if (name && !is_below(name, places->here) && !is_below(name, places->solver))
        LOG_INFO(job->log, "%s is outside of this folder and the solver's: %s%s%s", what, path,
                 strcmp(path, name) ? ", which is " : "", strcmp(path, name) ? name : "");
    free(found);
    free(name);
}

/* Fields that hold the name of a file, at whatever depth. */
static void look_through(const struct job *job, const struct places *places, const char *layer,
                         const ProtobufCMessage *message)
{
    static const char names[] = "source mean_file meanfile root_folder file_name";
    char what[256];

    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        size_t count = field_count(message, field);
        bool named = suggest_lists(names, field->name);

        for (size_t k = 0; k < count; k++) {
            const void *value = field_at(message, field, k);
            if (field->type == PROTOBUF_C_TYPE_MESSAGE)
                look_through(job, places, layer, *(ProtobufCMessage *const *)value);
            else if (named && field->type == PROTOBUF_C_TYPE_STRING) {
                snprintf(what, sizeof what, "%s of layer '%.100s'", field->name, layer);
                look_at(job, places, what, *(char *const *)value);
            }
        }
    }
}

static void look_through_net(const struct job *job, const struct places *places,
                             const struct net_def *def)
{
    for (int l = 0; l < def->nlayers; l++)
        look_through(job, places, def->layers[l].name, &def->layers[l].param->base);
}

void output_log_paths(const struct job *job)
{
    const Caffe__SolverParameter *s = job->solver;
    char *folder = path_folder(job->options->solver);
    struct places places = {.here = realpath(".", NULL),
                            .solver = folder ? realpath(folder, NULL) : NULL,
                            .solver_file = job->options->solver};

    look_at(job, &places, "net", s->net);
    look_at(job, &places, "train_net", s->train_net);
    for (size_t i = 0; i < s->n_test_net; i++)
        look_at(job, &places, "test_net", s->test_net[i]);
    for (size_t i = 0; i < s->n_weights; i++)
        look_at(job, &places, "weights", s->weights[i]);
    if (!job->options->snapshot_prefix) /* else the user said it */
        look_at(job, &places, "snapshot_prefix", s->snapshot_prefix);
    look_through_net(job, &places, job->defs.train);
    for (int i = 0; i < job->defs.ntests; i++)
        look_through_net(job, &places, job->defs.tests[i]);
    free(places.here);
    free(places.solver);
    free(folder);
}
