/* Reading a net's outputs, and printing them in the two forms that people and programs want. */
#include "report/outputs.h"

#include "util/alloc.h"

#include <stdlib.h>

size_t outputs_count(const struct net *net)
{
    size_t count = 0;

    for (int i = 0; i < net->noutputs; i++)
        count += shape_elems(&net->outputs[i].blob->value.shape);
    return count;
}

int outputs_read(const struct net *net, double *values)
{
    size_t at = 0;

    for (int i = 0; i < net->noutputs; i++) {
        const struct blob *blob = net->outputs[i].blob;
        size_t n = shape_elems(&blob->value.shape);
        float *plain = alloc_array(n, sizeof *plain, "an output");
        if (!plain || net_read_blob(net, blob, plain)) {
            free(plain);
            return -1;
        }
        for (size_t e = 0; e < n; e++)
            values[at++] = (double)plain[e] * net->outputs[i].share;
        free(plain);
    }
    return 0;
}

void outputs_log(struct log *log, const char *which, const struct net *net, const double *values)
{
    int k = 0;

    for (int i = 0; i < net->noutputs; i++) {
        const struct net_output *output = &net->outputs[i];
        double weight = (double)output->loss_weight;
        for (size_t e = 0; e < shape_elems(&output->blob->value.shape); e++, k++)
            if (output->loss_weight != 0)
                LOG_INFO(log, "    %s net output #%d: %s = %g (* %g = %g loss)", which, k,
                         output->blob->name, values[k], weight, weight * values[k]);
            else
                LOG_INFO(log, "    %s net output #%d: %s = %g", which, k, output->blob->name,
                         values[k]);
    }
}

void outputs_put_json(struct json *json, const char *key, const struct net *net,
                      const double *values)
{
    size_t at = 0;

    json_key(json, key);
    json_object_begin(json);
    for (int i = 0; values && i < net->noutputs; i++) {
        const struct blob *blob = net->outputs[i].blob;
        size_t n = shape_elems(&blob->value.shape);
        json_key(json, blob->name);
        if (n != 1)
            json_array_begin(json);
        for (size_t e = 0; e < n; e++)
            json_double(json, values[at++]);
        if (n != 1)
            json_array_end(json);
    }
    json_object_end(json);
}
