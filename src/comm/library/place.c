/* Memory of tensors, the host's or a GPU's, and types of gradients. The rest of the library sees
 * floats in a device's memory.
 *
 * CUDA is no part of libposeidon.so: the device of a GPU's memory comes from a module beside it. */
#define _GNU_SOURCE /* dladdr */
#include "library/library.h"

#include "device/module.h"
#include "util/error.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "config.h"

/* ---- the module ---- */

/* Opens the module beside the file that has the constant `words`, else where the loader looks. The
 * module stays until the process ends, like CUDA's run time. */
static void *open_module(void)
{
    enum { HOW = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };
    static const char words[] = DEVICE_MODULE;
    const char *slash;
    char path[PATH_MAX];
    Dl_info here;
    void *module = NULL;

    if (dladdr(words, &here) && here.dli_fname && (slash = strrchr(here.dli_fname, '/'))) {
        snprintf(path, sizeof path, "%.*s/%s", (int)(slash - here.dli_fname), here.dli_fname,
                 DEVICE_MODULE);
        module = dlopen(path, HOW);
    }
    return module ? module : dlopen(DEVICE_MODULE, HOW);
}

static int open_cuda(const struct device_i **out)
{
    static const struct device_module_errors errors = {error_set, error_context, error_text};
    device_module_fn *entry = NULL;
    void *module = open_module(), *found = module ? dlsym(module, DEVICE_MODULE_ENTRY) : NULL;

    if (!found)
        return error_set("a tensor on a GPU needs %s, which `configure` with CUDA makes: %s",
                         DEVICE_MODULE, dlerror());
    memcpy(&entry, &found, sizeof entry); /* ISO C has no such conversion of pointers */
    *out = entry(PACKAGE_VERSION, &errors);
    return *out ? 0 : -1;
}

/* ---- adding a tensor ---- */

static int check_array(const struct poseidon *p, const char *name, const void *array)
{
    int gpu;

    if (!array)
        return 0;
    if (p->device.i->guest->locate(array, &gpu))
        return error_context("tensor '%s'", name);
    return gpu == p->gpu ? 0
                         : error_set("tensor '%s' is on GPU %d, and earlier tensors are on GPU %d: "
                                     "a handle serves one GPU",
                                     name, gpu, p->gpu);
}

/* Opens the device for the first tensor on a GPU. */
static int open_device(struct poseidon *p, const struct poseidon_tensor *t)
{
    const void *array = t->gradient ? t->gradient : t->values;
    struct device device = {.i = NULL};
    int gpu;

    if (!array)
        return error_set("tensor '%s': gradient and values are NULL; its GPU is unknown", t->name);
    if (open_cuda(&device.i) || device.i->guest->locate(array, &gpu) ||
        device.i->open(gpu, &device.context))
        return error_context("tensor '%s'", t->name);
    p->device = device;
    p->gpu = gpu;
    return 0;
}

int library_check_place(struct poseidon *p, const struct poseidon_tensor *t,
                        const struct poseidon_place *place)
{
    bool cuda = place->memory == POSEIDON_CUDA;

    if (place->size < sizeof *place)
        return error_set(
            "tensor '%s': found .size = %zu; expected sizeof(struct poseidon_place), %zu", t->name,
            place->size, sizeof *place);
    if ((!cuda && place->memory != POSEIDON_HOST) || place->type < POSEIDON_FLOAT32 ||
        place->type > POSEIDON_BFLOAT16)
        return error_set("tensor '%s': memory %d and type %d; expected values of enum "
                         "poseidon_memory and enum poseidon_type",
                         t->name, place->memory, place->type);
    if (!t->gradient && place->type != POSEIDON_FLOAT32)
        return error_set(
            "tensor '%s': gradient is NULL, and the library allocates only float32 gradients",
            t->name);
    if (p->device.i && p->device.i->own_memory != cuda)
        return error_set("tensor '%s' is in %s memory, and earlier tensors are in %s: a handle "
                         "serves one of them",
                         t->name, cuda ? "a GPU's" : "the host's", cuda ? "the host's" : "a GPU's");
    if (!cuda)
        p->device.i = &device_host;
    else if (!p->device.i && open_device(p, t))
        return -1;
    return cuda ? error_status(check_array(p, t->name, t->gradient) ||
                               check_array(p, t->name, t->values))
                : 0;
}

/* ---- the arenas ---- */

int library_place_arenas(struct poseidon *p)
{
    const struct node *node = p->exchange.node;
    const struct device_i *i = p->device.i;
    size_t bytes = p->elems * sizeof(float);
    void *values, *grads;

    if (node_shares_memory(node)) {
        p->values = node->values;
        p->grads = node_grads(node, node->rank);
    } else {
        if (i->copies->host_alloc(p->device.context, bytes, "results", &values))
            return -1;
        p->values = values;
        if (i->copies->host_alloc(p->device.context, bytes, "gradients", &grads))
            return -1;
        p->grads = grads;
    }
    p->device_values = p->values;
    p->device_grads = p->grads;
    if (i->own_memory &&
        (!(p->device_values = device_own(&p->device, &p->arenas, bytes, "a copy of all results")) ||
         !(p->device_grads = device_own(&p->device, &p->arenas, bytes, "a copy of all gradients"))))
        return -1;
    for (int t = 0; t < p->nmembers; t++)
        if (!p->members[t].tensor.gradient)
            p->members[t].tensor.gradient = p->device_grads + p->members[t].begin;
    return 0;
}

void library_free_arenas(struct poseidon *p, bool shared)
{
    const struct device_i *i = p->device.i;

    owner_free(&p->arenas);
    if (!shared && i) {
        i->copies->host_free(p->device.context, p->values);
        i->copies->host_free(p->device.context, p->grads);
    }
    if (i && i->own_memory)
        i->close(p->device.context);
}

int library_move_values(struct poseidon *p, enum device_direction direction)
{
    const struct device_i *i = p->device.i;
    void *context = p->device.context;
    struct device_ticket *ticket;
    int status = i->copies->ticket_create(context, &ticket);

    if (!status && i->own_memory) /* the GPU may still compute the values */
        status = i->guest->follow(context, NULL);
    for (int t = 0; t < p->nmembers && !status; t++) {
        const struct member *m = &p->members[t];
        struct device_rows rows = {.host = p->values + m->begin,
                                   .memory = p->device_values + m->begin,
                                   .width = m->tensor.elems,
                                   .rows = 1};
        if (!m->tensor.values)
            continue;
        if (direction == DEVICE_FETCH)
            status = i->guest->expand(context, ELEMENT_FLOAT32, m->tensor.values, rows.width,
                                      rows.memory);
        if (!status)
            status = i->copies->copy(context, direction, &rows, DEVICE_IN_TURN, ticket) ||
                     i->copies->order(context, ticket);
        if (!status && direction == DEVICE_STORE)
            status =
                i->guest->take(context, ELEMENT_FLOAT32, rows.memory, rows.width, m->tensor.values);
    }
    if (!status && i->finish)
        status = i->finish(context);
    i->copies->ticket_destroy(context, ticket);
    return error_status(status);
}

/* ---- an iteration ---- */

int library_take_gradient(struct poseidon *p, int tensor, bool skipped)
{
    const struct member *m = &p->members[tensor];
    const void *from = skipped ? NULL : m->tensor.gradient;
    float *to = p->device_grads + m->begin;

    return from == to
               ? 0
               : p->device.i->guest->expand(p->device.context, m->type, from, m->tensor.elems, to);
}

void library_give_result(struct poseidon *p, int tensor)
{
    const struct member *m = &p->members[tensor];
    bool values = p->words.result == RESULT_VALUES;

    if (p->device.i->guest->take(p->device.context, values ? ELEMENT_FLOAT32 : m->type,
                                 p->device_values + m->begin, m->tensor.elems,
                                 values ? m->tensor.values : m->tensor.gradient))
        p->gave = -1;
}

/* Sets p->left and p->right for sync; on a GPU, to copies: the program may reuse its arrays. */
int library_take_factors(struct poseidon *p, int tensor, const float *left, const float *right)
{
    const struct member *m = &p->members[tensor];
    const struct device_guest_i *guest = p->device.i->guest;
    size_t outputs = (size_t)(m->tensor.rows * m->tensor.outputs),
           inputs = (size_t)(m->tensor.rows * m->tensor.inputs);

    p->left = left ? left : p->zeros;
    p->right = right ? right : p->zeros;
    if (!m->factors_kept)
        return 0;
    p->left = m->factors_kept;
    p->right = m->factors_kept + outputs;
    return error_status(
        guest->expand(p->device.context, ELEMENT_FLOAT32, left, outputs, m->factors_kept) ||
        guest->expand(p->device.context, ELEMENT_FLOAT32, right, inputs,
                      m->factors_kept + outputs));
}

int library_check_stream(const struct poseidon *p)
{
    if (library_check(p, true))
        return -1;
    return p->device.i->own_memory ? 0
                                   : error_set("the handle's tensors are in host memory, which has "
                                               "no streams: call the function without _on");
}

/* Waits for all results of the last iteration, before an iteration's first post. A node's GPUs add
 * up without their hosts, and no host may be more than one iteration ahead (sync/gather_team.c). */
int library_catch_up(struct poseidon *p)
{
    const struct node *node = p->exchange.node;

    if (p->caught_up || !node || !node->team)
        return 0;
    p->caught_up = true;
    return p->device.i->finish(p->device.context) ? library_end(p) : 0;
}

int library_follow(struct poseidon *p, void *stream)
{
    if (library_check_stream(p) || library_catch_up(p))
        return -1;
    return p->device.i->guest->follow(p->device.context, stream) ? library_end(p) : 0;
}

int library_precede(struct poseidon *p, void *stream)
{
    return p->device.i->guest->precede(p->device.context, stream) ? library_end(p) : 0;
}
