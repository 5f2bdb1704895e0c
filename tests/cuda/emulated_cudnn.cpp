/* cuDNN's graph API in the part that cuda/execution_plan.c uses: descriptors keep what they are
 * given and are checked as the library checks them, and an execution computes a convolution from
 * the tensors' own dimensions and strides. Part of emulation.cpp.
 *
 * POSEIDON_EMULATED_CUDNN: how many candidates each convolution has; none unless it is set. All but
 * the last four round as tensor cores do. Of these four, two are exact, one gives wrong sums, as
 * reduced precision does in the extreme, and one says that it is not deterministic. Some cannot be
 * built, some want more memory than anyone has, the ReLU of some makes 0 of NaN, and each has a
 * running time of its own. */

enum { FAKE_ATTRIBUTES = 12, FAKE_BYTES = 64, FAKE_WORKSPACE = 1000 };

struct cudnnContext {
    cudaStream_t stream;
};

struct fake_attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    unsigned char bytes[FAKE_BYTES];
};

struct fake_descriptor {
    cudnnBackendDescriptorType_t type;
    int holders;
    bool finalized;
    int candidate;                 /* of configurations and engines */
    struct fake_descriptor *graph; /* likewise */
    int used;
    struct fake_attribute attribute[FAKE_ATTRIBUTES];
};

static int fake_candidates(void)
{
    const char *text = getenv("POSEIDON_EMULATED_CUDNN");

    return text ? atoi(text) : 0;
}

static bool fake_is_rounded(int candidate)
{
    return candidate < fake_candidates() - 4;
}

static bool fake_is_wrong(int candidate)
{
    return candidate == fake_candidates() - 2;
}

static bool fake_is_unordered(int candidate)
{
    return candidate == fake_candidates() - 1;
}

static bool fake_loses_nan(int candidate)
{
    return candidate % 3 == 0;
}

static double fake_milliseconds(int candidate)
{
    return 1 + (candidate * 5 + 3) % fake_candidates();
}

static size_t fake_size(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
        return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
        return 1;
    default:
        return 4;
    }
}

static void fake_release(struct fake_descriptor *d)
{
    if (!d || --d->holders > 0)
        return;
    for (int i = 0; i < d->used; i++)
        if (d->attribute[i].type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
            for (int64_t k = 0; k < d->attribute[i].count; k++)
                fake_release(((struct fake_descriptor **)d->attribute[i].bytes)[k]);
    fake_release(d->graph);
    free(d);
}

static cudnnStatus_t fake_create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
    struct fake_descriptor *d = (struct fake_descriptor *)calloc(1, sizeof *d);

    d->type = type;
    d->holders = 1;
    *out = d;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_destroy(cudnnBackendDescriptor_t descriptor)
{
    fake_release((struct fake_descriptor *)descriptor);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    struct fake_descriptor *d = (struct fake_descriptor *)descriptor;
    struct fake_attribute *a = &d->attribute[d->used];

    if (d->finalized)
        return CUDNN_STATUS_NOT_INITIALIZED;
    if (!values || count < 1 || (size_t)count * fake_size(type) > FAKE_BYTES ||
        d->used == FAKE_ATTRIBUTES)
        return CUDNN_STATUS_BAD_PARAM;
    *a = {name, type, count, {0}};
    memcpy(a->bytes, values, (size_t)count * fake_size(type));
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count; i++) {
        struct fake_descriptor *given = ((struct fake_descriptor **)a->bytes)[i];
        if (!given || !given->finalized)
            return CUDNN_STATUS_BAD_PARAM;
        given->holders++;
    }
    d->used++;
    return CUDNN_STATUS_SUCCESS;
}

/* NULL: it was not given as so many values of that type. */
static const void *fake_find(const struct fake_descriptor *d, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, int64_t count)
{
    for (int i = 0; i < d->used; i++)
        if (d->attribute[i].name == name && d->attribute[i].type == type &&
            (count == 0 || d->attribute[i].count == count))
            return d->attribute[i].bytes;
    return NULL;
}

static struct fake_descriptor *fake_part(const struct fake_descriptor *d,
                                         cudnnBackendAttributeName_t name)
{
    const void *found = fake_find(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1);

    return found ? *(struct fake_descriptor *const *)found : NULL;
}

/* ---- graphs ---- */

/* Of four axes, or five: n, c, and two or three spatial ones; a missing depth is 1. */
struct fake_tensor {
    int64_t dim[5], stride[5], uid, alignment;
    cudnnDataType_t type;
    bool is_virtual;
};

static bool fake_tensor_of(const struct fake_descriptor *d, struct fake_tensor *out)
{
    bool depth = fake_find(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 5) != NULL;
    int axes = depth ? 5 : 4;
    const void *dim = fake_find(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, axes);
    const void *stride = fake_find(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, axes);
    const void *uid = fake_find(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1);
    const void *at = fake_find(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1);
    const void *type = fake_find(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1);
    const void *is_virtual = fake_find(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1);

    if (!dim || !stride || !uid || !at || !type || !is_virtual)
        return false;
    out->dim[2] = 1;
    out->stride[2] = 0;
    for (int i = 0; i < axes; i++) {
        int to = i < 2 || depth ? i : i + 1;
        out->dim[to] = ((const int64_t *)dim)[i];
        out->stride[to] = ((const int64_t *)stride)[i];
    }
    out->uid = *(const int64_t *)uid;
    out->alignment = *(const int64_t *)at;
    out->type = *(const cudnnDataType_t *)type;
    out->is_virtual = *(const bool *)is_virtual;
    return true;
}

static int64_t fake_pixels(const struct fake_tensor *t)
{
    return t->dim[2] * t->dim[3] * t->dim[4];
}

static int64_t fake_elems(const struct fake_tensor *t)
{
    return t->dim[0] * t->dim[1] * fake_pixels(t);
}

/* Where the element of that number is on each axis, and back. */
static void fake_place(const struct fake_tensor *t, int64_t i, int64_t at[5])
{
    for (int axis = 4; axis >= 0; i /= t->dim[axis], axis--)
        at[axis] = i % t->dim[axis];
}

static int64_t fake_number(const struct fake_tensor *t, const int64_t at[5])
{
    int64_t i = 0;

    for (int axis = 0; axis < 5; axis++)
        i = i * t->dim[axis] + at[axis];
    return i;
}

/* A graph, read: one convolution, a bias added to what it gives, and a ReLU behind. */
struct fake_conv {
    cudnnBackendDescriptorType_t type;
    struct fake_tensor x, w, y, bias;
    bool biased, relu;
    int64_t pad[3], stride[3], dilation[3]; /* depth, height, width */
};

/* One attribute of the window; `missing` where there is no depth. */
static bool fake_read_axes(const struct fake_descriptor *d, cudnnBackendAttributeName_t name,
                           int64_t missing, int64_t out[3])
{
    const void *axes = fake_find(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1);
    int64_t count = axes ? *(const int64_t *)axes : 0;
    const void *found =
        count == 2 || count == 3 ? fake_find(d, name, CUDNN_TYPE_INT64, count) : NULL;

    out[0] = missing;
    if (found)
        memcpy(out + 3 - count, found, (size_t)count * sizeof *out);
    return found != NULL;
}

static bool fake_read_window(const struct fake_descriptor *d, struct fake_conv *out)
{
    const void *compute = fake_find(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1);
    int64_t after[3];

    return compute && *(const cudnnDataType_t *)compute == CUDNN_DATA_FLOAT &&
           fake_read_axes(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0, out->pad) &&
           fake_read_axes(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0, after) &&
           fake_read_axes(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1, out->stride) &&
           fake_read_axes(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, 1, out->dilation) &&
           memcmp(out->pad, after, sizeof after) == 0;
}

struct fake_names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
};

static const struct fake_names fake_operations[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static bool fake_read_operation(const struct fake_descriptor *d, struct fake_conv *out)
{
    for (const struct fake_names &names : fake_operations) {
        if (names.type != d->type)
            continue;
        const struct fake_descriptor *conv = fake_part(d, names.conv), *x = fake_part(d, names.x),
                                     *w = fake_part(d, names.w), *y = fake_part(d, names.y);
        const void *alpha = fake_find(d, names.alpha, CUDNN_TYPE_FLOAT, 1);
        const void *beta = fake_find(d, names.beta, CUDNN_TYPE_FLOAT, 1);
        out->type = d->type;
        return conv && x && w && y && alpha && beta && *(const float *)alpha == 1 &&
               *(const float *)beta == 0 && fake_read_window(conv, out) &&
               fake_tensor_of(x, &out->x) && fake_tensor_of(w, &out->w) &&
               fake_tensor_of(y, &out->y);
    }
    return false;
}

/* A pointwise operation of that mode on what the graph gives so far, which is not stored; `y` is
 * what it gives then. */
static bool fake_read_pointwise(const struct fake_descriptor *d, cudnnPointwiseMode_t expected,
                                struct fake_conv *out)
{
    const struct fake_descriptor *x = fake_part(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
                                 *y = fake_part(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
                                 *how = fake_part(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const void *mode =
        how ? fake_find(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1) : NULL;
    struct fake_tensor before = out->y, from;

    return d->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR && x && y && mode &&
           *(const cudnnPointwiseMode_t *)mode == expected && fake_tensor_of(x, &from) &&
           fake_tensor_of(y, &out->y) && before.is_virtual && before.uid == from.uid;
}

/* y = what the convolution gives + b */
static bool fake_read_addition(const struct fake_descriptor *d, struct fake_conv *out)
{
    const struct fake_descriptor *b = fake_part(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);

    out->biased = true;
    return fake_read_pointwise(d, CUDNN_POINTWISE_ADD, out) && b && fake_tensor_of(b, &out->bias) &&
           out->bias.dim[1] == out->y.dim[1] && out->bias.dim[0] == 1 &&
           fake_pixels(&out->bias) == 1;
}

static bool fake_read_relu(const struct fake_descriptor *d, struct fake_conv *out)
{
    out->relu = true;
    return fake_read_pointwise(d, CUDNN_POINTWISE_RELU_FWD, out);
}

static bool fake_read_graph(const struct fake_descriptor *graph, struct fake_conv *out)
{
    int64_t count = graph->used == 1 ? graph->attribute[0].count : 0;
    const void *found =
        fake_find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count);
    struct fake_descriptor *const *operation = (struct fake_descriptor *const *)found;

    memset(out, 0, sizeof *out);
    return found && count >= 1 && count <= 3 && fake_read_operation(operation[0], out) &&
           (count < 2 || fake_read_addition(operation[1], out)) &&
           (count < 3 || fake_read_relu(operation[2], out)) && !out->y.is_virtual;
}

/* ---- candidates ---- */

static cudnnStatus_t fake_finalize(cudnnBackendDescriptor_t descriptor)
{
    struct fake_descriptor *d = (struct fake_descriptor *)descriptor;
    struct fake_conv conv;
    struct fake_tensor tensor;

    if (d->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR && !fake_tensor_of(d, &tensor))
        return CUDNN_STATUS_BAD_PARAM;
    if (d->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && !fake_read_graph(d, &conv))
        return CUDNN_STATUS_BAD_PARAM;
    if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
        d->graph = fake_part(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
        const void *mode = fake_find(d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1);
        if (!d->graph || !mode)
            return CUDNN_STATUS_BAD_PARAM;
        d->graph->holders++;
        if (*(const cudnnBackendHeurMode_t *)mode != CUDNN_HEUR_MODE_A || fake_candidates() == 0)
            return CUDNN_STATUS_NOT_SUPPORTED;
    }
    if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        const struct fake_descriptor *config =
            fake_part(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
        if (!config)
            return CUDNN_STATUS_BAD_PARAM;
        if (config->candidate % 4 == 1) /* known to the heuristics, and not to be built */
            return CUDNN_STATUS_NOT_SUPPORTED;
        d->candidate = config->candidate;
        d->graph = config->graph;
        d->graph->holders++;
    }
    d->finalized = true;
    return CUDNN_STATUS_SUCCESS;
}

static void fake_name_candidate(struct fake_descriptor *d, struct fake_descriptor *graph,
                                int candidate)
{
    d->candidate = candidate;
    d->finalized = true;
    if (!d->graph) {
        d->graph = graph;
        graph->holders++;
    }
}

static cudnnStatus_t fake_notes(int candidate, int64_t room, int64_t *count, void *out)
{
    cudnnBackendNumericalNote_t notes[3];

    *count = 0;
    if (fake_is_rounded(candidate))
        notes[(*count)++] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    if (fake_is_wrong(candidate))
        notes[(*count)++] = CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    if (fake_is_unordered(candidate))
        notes[(*count)++] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    memcpy(out, notes, (size_t)(*count < room ? *count : room) * sizeof *notes);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_get(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t, int64_t room, int64_t *count, void *out)
{
    struct fake_descriptor *d = (struct fake_descriptor *)descriptor;
    struct fake_descriptor **given = (struct fake_descriptor **)out;

    if (!d->finalized)
        return CUDNN_STATUS_NOT_INITIALIZED;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        *count = fake_candidates();
        for (int64_t i = 0; i < room && i < *count; i++)
            fake_name_candidate(given[i], d->graph, (int)i);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        *count = 1;
        fake_name_candidate(given[0], d->graph, d->candidate);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        return fake_notes(d->candidate, room, count, out);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        *count = 1;
        *(int64_t *)out = d->candidate % 5 == 2 ? INT64_MAX : FAKE_WORKSPACE * (d->candidate + 1);
        return CUDNN_STATUS_SUCCESS;
    default:
        return CUDNN_STATUS_BAD_PARAM;
    }
}

/* ---- execution ---- */

static float fake_value(const struct fake_tensor *t, const void *data, const int64_t at[5],
                        bool rounded)
{
    int64_t i = 0;
    float value;
    uint32_t bits;

    for (int axis = 0; axis < 5; axis++)
        i += at[axis] * t->stride[axis];
    value = t->type == CUDNN_DATA_BFLOAT16 ? element(((const struct bf16 *)data)[i])
                                           : ((const float *)data)[i];
    if (!rounded)
        return value;
    memcpy(&bits, &value, sizeof bits);
    bits &= 0xFFFFE000; /* the ten bits of TF32 */
    memcpy(&value, &bits, sizeof bits);
    return value;
}

/* All pairs of places and weights: what the direction asks for is added up where it belongs. */
static void fake_add_up(const struct fake_conv *c, bool rounded, const void *x, const void *w,
                        const void *y, double *sums)
{
    int64_t groups = c->x.dim[1] / c->w.dim[1], outs = c->w.dim[0] / groups;
    int64_t terms = c->w.dim[1] * fake_pixels(&c->w);

    for (int64_t p = 0; p < fake_elems(&c->y); p++)
        for (int64_t i = 0; i < terms; i++) {
            int64_t xm[5], wm[5], ym[5];
            bool inside = true;
            fake_place(&c->y, p, ym);
            fake_place(&c->w, ym[1] * terms + i, wm);
            xm[0] = ym[0];
            xm[1] = ym[1] / outs * c->w.dim[1] + wm[1];
            for (int a = 0; a < 3; a++) {
                xm[2 + a] = ym[2 + a] * c->stride[a] - c->pad[a] + wm[2 + a] * c->dilation[a];
                inside = inside && xm[2 + a] >= 0 && xm[2 + a] < c->x.dim[2 + a];
            }
            if (!inside)
                continue;
            const int64_t *at = ym;
            const struct fake_tensor *to = &c->y;
            double product = 1;
            if (c->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
                to = &c->x, at = xm;
            if (c->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
                to = &c->w, at = wm;
            if (to != &c->x)
                product *= (double)fake_value(&c->x, x, xm, rounded);
            if (to != &c->w)
                product *= (double)fake_value(&c->w, w, wm, rounded);
            if (to != &c->y)
                product *= (double)fake_value(&c->y, y, ym, rounded);
            sums[fake_number(to, at)] += product;
        }
}

static void fake_store(const struct fake_conv *c, const struct fake_tensor *to, const double *sums,
                       const void *bias, int candidate, void *data)
{
    for (int64_t i = 0; i < fake_elems(to); i++) {
        int64_t at[5], place = 0;
        fake_place(to, i, at);
        for (int axis = 0; axis < 5; axis++)
            place += at[axis] * to->stride[axis];
        int64_t of_bias[5] = {0, at[1], 0, 0, 0};
        float value = (float)(sums[i] + (fake_is_wrong(candidate) ? 1 : 0));
        if (c->biased)
            value += fake_value(&c->bias, bias, of_bias, false);
        if (c->relu && (fake_loses_nan(candidate) ? !(value > 0) : value < 0))
            value = 0;
        if (to->type == CUDNN_DATA_BFLOAT16)
            element_set(&((struct bf16 *)data)[place], value);
        else
            ((float *)data)[place] = value;
    }
}

static void fake_run(const struct fake_conv *c, int candidate, const void *x, const void *w,
                     const void *y, const void *bias)
{
    const struct fake_tensor *to = &c->y;
    const void *data = y;

    if (c->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
        to = &c->x, data = x;
    if (c->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
        to = &c->w, data = w;
    double *sums = (double *)calloc((size_t)fake_elems(to), sizeof *sums);
    fake_add_up(c, fake_is_rounded(candidate), x, w, y, sums);
    fake_store(c, to, sums, bias, candidate, (void *)(uintptr_t)data);
    free(sums);
}

/* The pointer given for a tensor; NULL: none, or it is not where the graph says. */
static const void *fake_pointer(const struct fake_descriptor *pack, const struct fake_tensor *t,
                                int64_t count)
{
    const void *uids = fake_find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count);
    const void *data =
        fake_find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count);

    for (int64_t i = 0; uids && data && i < count; i++)
        if (((const int64_t *)uids)[i] == t->uid) {
            const void *found = ((const void *const *)data)[i];
            return (uintptr_t)found % (uintptr_t)t->alignment ? NULL : found;
        }
    return NULL;
}

static cudnnStatus_t fake_execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_,
                                  cudnnBackendDescriptor_t pack_)
{
    const struct fake_descriptor *plan = (struct fake_descriptor *)plan_;
    const struct fake_descriptor *pack = (struct fake_descriptor *)pack_;
    const void *found = fake_find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1);
    void *workspace = found ? *(void *const *)found : NULL;
    struct fake_conv c;
    cudaStream_t stream = handle->stream;
    int candidate = plan->candidate;

    if (!plan->finalized || !pack->finalized || !fake_read_graph(plan->graph, &c) || !workspace)
        return CUDNN_STATUS_BAD_PARAM;
    int64_t count = c.biased ? 4 : 3;
    const void *x = fake_pointer(pack, &c.x, count), *w = fake_pointer(pack, &c.w, count),
               *y = fake_pointer(pack, &c.y, count),
               *bias = c.biased ? fake_pointer(pack, &c.bias, count) : NULL;
    if (!x || !w || !y || (c.biased && !bias))
        return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    emulated_later(stream, [=]() {
        memset(workspace, 0xFF, (size_t)(FAKE_WORKSPACE * (candidate + 1)));
        fake_run(&c, candidate, x, w, y, bias);
        /* odd numbers of outputs are better off with a bias of their own */
        stream->busy += fake_milliseconds(candidate) + (c.biased && c.y.dim[1] % 2 ? 5 : 0);
    });
    return CUDNN_STATUS_SUCCESS;
}

static void fake_cudnn(struct cuda_libs *libs)
{
    libs->cudnnCreate_ = [](cudnnHandle_t *out) {
        *out = (cudnnHandle_t)calloc(1, sizeof **out);
        return CUDNN_STATUS_SUCCESS;
    };
    libs->cudnnDestroy_ = [](cudnnHandle_t handle) {
        free(handle);
        return CUDNN_STATUS_SUCCESS;
    };
    libs->cudnnSetStream_ = [](cudnnHandle_t handle, cudaStream_t stream) {
        handle->stream = stream;
        return CUDNN_STATUS_SUCCESS;
    };
    libs->cudnnGetVersion_ = []() { return (size_t)0; };
    libs->cudnnGetErrorString_ = [](cudnnStatus_t status) {
        return status == CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER ? "a misaligned pointer"
                                                                   : "an emulated status";
    };
    libs->cudnnGetLastErrorString_ = [](char *text, size_t) { text[0] = '\0'; };
    libs->cudnnBackendCreateDescriptor_ = fake_create;
    libs->cudnnBackendDestroyDescriptor_ = fake_destroy;
    libs->cudnnBackendSetAttribute_ = fake_set;
    libs->cudnnBackendGetAttribute_ = fake_get;
    libs->cudnnBackendFinalize_ = fake_finalize;
    libs->cudnnBackendExecute_ = fake_execute;
}
