/* Between upgrade.c and upgrade_v0.c. */
#ifndef POSEIDON_SPEC_UPGRADE_INTERNAL_H
#define POSEIDON_SPEC_UPGRADE_INTERNAL_H

#include "spec/upgrade.h"

#include <stdbool.h>

/* A type of layers; upgrade_type: by its number in V1, NULL where there is none. */
struct upgrade_type {
    const char *name;       /* today's; "" for NONE */
    const char *v0;         /* V0's; NULL: it had none */
    const char *v0_message; /* of V1, where V0's settings are; NULL: none */
};
const struct upgrade_type *upgrade_type(int v1_type);

bool upgrade_is_v0(const Caffe__NetParameter *net);
int upgrade_v0(Caffe__NetParameter *net, struct text_doc *doc);

/* "FILE:LINE: layer 'NAME'" of a layer that is being upgraded. */
struct upgrade_place {
    char text[512];
};
struct upgrade_place upgrade_place(const struct text_doc *doc, const void *message,
                                   const char *name);

/* The sub-message of that name, made if it is not there yet. */
int upgrade_submessage(ProtobufCMessage *message, const char *name, ProtobufCMessage **out);

/* Moves what `from` holds in one field into a field of `to` that holds values of the same size; a
 * singular value may go into a list. What `to` had there is replaced. */
int upgrade_move(ProtobufCMessage *from, const char *from_name, ProtobufCMessage *to,
                 const char *to_name);

#endif
