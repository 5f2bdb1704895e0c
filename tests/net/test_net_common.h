/* Nets from a text, for the tests of layers and nets. */
#ifndef POSEIDON_TESTS_NET_TEST_NET_COMMON_H
#define POSEIDON_TESTS_NET_TEST_NET_COMMON_H

#include "net/net.h"
#include "util/error.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A net with all that it borrows. */
struct made {
    struct text_doc *doc;
    struct net_def *def;
    struct net *net;
    char *notices;
};

/* Makes the net of that text ("test.prototxt" in messages) or file; status as of net_create. env
 * may be NULL. */
static inline int made_from(struct made *made, struct text_doc *doc, bool train,
                            const struct layer_env *env, const struct net *share)
{
    struct layer_env own = env ? *env : (struct layer_env){.nranks = 1, .seed = 1};
    int status;

    made->doc = doc;
    own.notices = &made->notices;
    status = net_def_create(made->doc, (Caffe__NetParameter *)text_root(made->doc),
                            train ? CAFFE__PHASE__TRAIN : CAFFE__PHASE__TEST, NULL, &made->def);
    return status ? status : net_create(made->def, train, &own, share, &made->net);
}

static inline int make_net(struct made *made, const char *text, bool train,
                           const struct layer_env *env, const struct net *share)
{
    struct text_doc *doc;

    *made = (struct made){0};
    ck_assert_msg(text_read_string("test.prototxt", text, strlen(text),
                                   &caffe__net_parameter__descriptor, &doc) == 0,
                  "%s", error_text());
    return made_from(made, doc, train, env, share);
}

static inline int make_net_file(struct made *made, const char *path, bool train,
                                const struct layer_env *env)
{
    struct text_doc *doc;

    *made = (struct made){0};
    ck_assert_msg(text_read_file(path, &caffe__net_parameter__descriptor, &doc) == 0, "%s",
                  error_text());
    return made_from(made, doc, train, env, NULL);
}

static inline void unmake_net(struct made *made)
{
    net_destroy(made->net);
    net_def_destroy(made->def);
    text_free(made->doc);
    free(made->notices);
    *made = (struct made){0};
}

/* A file of the source tree; valid until the next call. */
static inline const char *source_file(const char *name)
{
    static char path[1024];
    const char *folder = getenv("srcdir");

    snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", name);
    return path;
}

/* "2 3 4 5" of a blob. */
static inline const char *shape_of(const struct net *net, const char *blob)
{
    static char text[256];
    const struct blob *found = net_find_blob(net, blob);

    ck_assert_msg(found != NULL, "no blob %s", blob);
    text[0] = '\0';
    for (int i = 0; i < found->value.shape.naxes; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? " " : "",
                 (int)found->value.shape.dim[i]);
    return text;
}

#define INPUT(name, dims)                                                                          \
    "layer { name: '" name "' type: 'Input' top: '" name "' input_param { shape { dim: [" dims     \
    "] } } }\n"

#endif
