/* Reads a net's outputs, and prints them in the forms that people and programs want. */
#include "report/outputs.h"

#include "util/alloc.h"

#include <stdio.h>
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

size_t outputs_count_parts(const struct net *net)
{
    size_t count = outputs_count(net);

    for (int i = 0; i < net->noutputs; i++)
        count += net->outputs[i].labels != NULL;
    return count;
}

int outputs_read_part(struct net *net, double *values)
{
    double *value = values, *labels = values + outputs_count(net);

    if (outputs_read(net, values))
        return -1;
    for (int i = 0; i < net->noutputs; i++) {
        const struct net_output *output = &net->outputs[i];
        if (output->labels) {
            if (net_count_scored(net, output, labels))
                return -1;
            *value *= *labels++;
        }
        value += shape_elems(&output->blob->value.shape);
    }
    return 0;
}

void outputs_join(const struct net *net, double *values)
{
    double *value = values, *labels = values + outputs_count(net);

    for (int i = 0; i < net->noutputs; i++) {
        const struct net_output *output = &net->outputs[i];
        if (output->labels) {
            *value /= *labels > 0 ? *labels : 1;
            labels++;
        }
        value += shape_elems(&output->blob->value.shape);
    }
}

const struct net_output *outputs_at(const struct net *net, size_t k)
{
    const struct net_output *output = net->outputs;

    for (size_t n; k >= (n = shape_elems(&output->blob->value.shape)); output++)
        k -= n;
    return output;
}

void outputs_log(struct log *log, const char *which, const struct net *net, const double *values)
{
    char head[64] = "";

    for (size_t k = 0; k < outputs_count(net); k++) {
        const struct net_output *output = outputs_at(net, k);
        double weight = (double)output->loss_weight;

        if (which)
            snprintf(head, sizeof head, "    %s net output #%zu: ", which, k);
        if (weight != 0)
            LOG_INFO(log, "%s%s = %g (* %g = %g loss)", head, output->blob->name, values[k], weight,
                     weight * values[k]);
        else
            LOG_INFO(log, "%s%s = %g", head, output->blob->name, values[k]);
    }
}

void outputs_put_json(struct json *json, const char *key, const struct net *net,
                      const double *values)
{
    size_t at = 0;

    json_put_object(json, key);
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
