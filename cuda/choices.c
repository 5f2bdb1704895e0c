/* The fastest candidate of each convolution, by device and shape (choice_file.h). The key holds all
 * that the candidates depend on: device, cuDNN's version, precision, shape, and the version (v2) of
 * this program's list. */
#include "cuda_internal.h"

#include "choice_file.h"

#include <stdio.h>
#include <string.h>

int cuda_choices_open(struct cuda_engine *engine)
{
    return choices_open(&engine->choices);
}

void cuda_choices_close(struct cuda_engine *engine)
{
    choices_close(engine->choices);
    engine->choices = NULL;
}

static void choices_key(const struct cuda_engine *engine, enum cuda_plan_kind kind,
                        const struct kernel_conv *c, char key[CHOICES_KEY_BYTES])
{
    int used = snprintf(
        key, CHOICES_KEY_BYTES, "%.80s,cudnn%zu,v2,m%d%s,w%zu,k%d,n%d,c%d,%dx%d,o%d,%dx%d,g%d",
        engine->words, engine->libs.cudnnGetVersion_(), (int)engine->math,
        engine->deterministic ? "d" : "", engine->workspace, (int)kind, c->samples, c->channels,
        c->size[1], c->size[2], c->outputs, c->places[1], c->places[2], c->group);

    used += snprintf(key + used, CHOICES_KEY_BYTES - (size_t)used, ",f%dx%d,s%dx%d,p%dx%d,d%dx%d",
                     c->kernel[1], c->kernel[2], c->stride[1], c->stride[2], c->pad[1], c->pad[2],
                     c->dilation[1], c->dilation[2]);
    if (cuda_conv_has_depth(c))
        snprintf(key + used, CHOICES_KEY_BYTES - (size_t)used, ",depth%d,%d,f%d,s%d,p%d,d%d",
                 c->size[0], c->places[0], c->kernel[0], c->stride[0], c->pad[0], c->dilation[0]);
    /* GPUs of one model share choices: the key has no device number */
    char *number = strstr(key, ", device ");
    if (number) {
        char *rest = strchr(number + 1, ',');
        memmove(number, rest, strlen(rest) + 1);
    }
}

int cuda_choice_find(const struct cuda_engine *engine, enum cuda_plan_kind kind,
                     const struct kernel_conv *conv)
{
    char key[CHOICES_KEY_BYTES];

    choices_key(engine, kind, conv, key);
    return choices_find(engine->choices, key);
}

void cuda_choice_note(struct cuda_engine *engine, enum cuda_plan_kind kind,
                      const struct kernel_conv *conv, int choice)
{
    char key[CHOICES_KEY_BYTES];

    choices_key(engine, kind, conv, key);
    choices_note(engine->choices, key, choice);
}
