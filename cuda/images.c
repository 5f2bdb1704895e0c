/* Batches of images as bytes. The bytes are copied to the device, a quarter of what floats would
 * be, and become values there. Two batches may be on the device: the computation reads one while
 * the next is copied. */
#include "cuda_internal.h"

#include "util/error.h"

#include <stdlib.h>

enum { IMAGE_BUFFERS = 2 };

struct engine_images {
    struct kernel_images shape;
    size_t bytes; /* bytes of a batch's pixels */
    void *mean;   /* mean image, or a mean per channel; NULL: none */
    struct {
        void *pixels, *windows;
        cudaEvent_t filled, used;
    } buffer[IMAGE_BUFFERS];
    unsigned next;
};

void cuda_images_destroy(void *context, struct engine_images *images)
{
    const struct cuda_engine *engine = context;

    if (!images)
        return;
    cudaStreamSynchronize(engine->stream);
    for (int i = 0; i < IMAGE_BUFFERS; i++) {
        cuda_free(NULL, images->buffer[i].pixels);
        cuda_free(NULL, images->buffer[i].windows);
        if (images->buffer[i].filled)
            cudaEventDestroy(images->buffer[i].filled);
        if (images->buffer[i].used)
            cudaEventDestroy(images->buffer[i].used);
    }
    cuda_free(NULL, images->mean);
    free(images);
}

static int images_mean_create(struct cuda_engine *engine, const struct engine_images_args *args,
                              struct engine_images *images)
{
    const float *from = args->mean ? args->mean : args->channel_mean;
    int64_t pixels = args->mean ? args->mean_height * args->mean_width : 1;
    struct tensor mean = {.shape = {.naxes = 1, .dim = {args->channels * pixels}}};

    if (!from)
        return 0;
    mean.bytes = shape_elems(&mean.shape) * sizeof(float);
    if (cuda_alloc(mean.bytes, "the mean image", &images->mean))
        return -1;
    mean.data = images->mean;
    images->shape.mean_height = args->mean ? (int)args->mean_height : 1;
    images->shape.mean_width = args->mean ? (int)args->mean_width : 1;
    return cuda_write(engine, &mean, from);
}

static int images_buffers_create(struct engine_images *images)
{
    for (int i = 0; i < IMAGE_BUFFERS; i++)
        if (cuda_alloc(images->bytes, "a batch of images", &images->buffer[i].pixels) ||
            cuda_alloc((size_t)images->shape.samples * sizeof(struct engine_window),
                       "a batch of images", &images->buffer[i].windows) ||
            cuda_check(
                cudaEventCreateWithFlags(&images->buffer[i].filled, cudaEventDisableTiming)) ||
            cuda_check(cudaEventCreateWithFlags(&images->buffer[i].used, cudaEventDisableTiming)))
            return -1;
    return 0;
}

int cuda_images_create(void *context, const struct engine_images_args *args, struct blob *top,
                       struct engine_images **out)
{
    struct cuda_engine *engine = context;
    struct engine_images *images;
    size_t each = (size_t)(args->channels * args->height * args->width);

    *out = NULL;
    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    images = calloc(1, sizeof *images);
    if (!images)
        return error_memory(sizeof *images, "batches of images");
    images->bytes = shape_elems(&top->value.shape);
    images->shape = (struct kernel_images){.samples = (int)(images->bytes / each),
                                           .channels = (int)args->channels,
                                           .height = (int)args->height,
                                           .width = (int)args->width,
                                           .scale = args->scale};
    if (images_mean_create(engine, args, images) || images_buffers_create(images)) {
        cuda_images_destroy(context, images);
        return -1;
    }
    cuda_top_set(top, cuda_nhwc(engine));
    *out = images;
    return 0;
}

int cuda_images_write(void *context, struct engine_images *images, struct tensor *top,
                      const uint8_t *pixels, const struct engine_window *windows)
{
    struct cuda_engine *engine = context;
    unsigned i = images->next++ % IMAGE_BUFFERS;
    void *to = images->buffer[i].pixels, *to_windows = images->buffer[i].windows;
    cudaEvent_t filled = images->buffer[i].filled, used = images->buffer[i].used;
    const struct cuda_format *format = cuda_tensor_format(top);

    if (cuda_check(cudaSetDevice(engine->device)) || cuda_check(cudaEventSynchronize(used)) ||
        cuda_check(
            cudaMemcpyAsync(to, pixels, images->bytes, cudaMemcpyHostToDevice, engine->feed)) ||
        cuda_check(cudaMemcpyAsync(to_windows, windows,
                                   (size_t)images->shape.samples * sizeof *windows,
                                   cudaMemcpyHostToDevice, engine->feed)) ||
        cuda_check(cudaEventRecord(filled, engine->feed)) ||
        cuda_check(cudaStreamWaitEvent(engine->stream, filled, 0)) ||
        cuda_check(kernel_images(engine->stream, &images->shape, to, to_windows, images->mean,
                                 cuda_format_type(format), format && format->nhwc, top->data)) ||
        cuda_check(cudaEventRecord(used, engine->stream)))
        return -1;
    return cuda_check(cudaEventSynchronize(filled));
}
