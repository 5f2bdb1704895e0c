/* Shared by upgrade.c and upgrade_v0.c. */
#ifndef POSEIDON_SPEC_UPGRADE_INTERNAL_H
#define POSEIDON_SPEC_UPGRADE_INTERNAL_H

#include "spec/upgrade.h"

#include <stdbool.h>

/* A layer type in its three forms. upgrade_type finds it by its V1 number; NULL: no such type. */
struct upgrade_type {
    const char *name;       /* name in today's form; "" for NONE */
    const char *v0;         /* name in V0; NULL: none */
    const char *v0_message; /* V1 message that holds V0's settings; NULL: none */
};
const struct upgrade_type *upgrade_type(int v1_type);

bool upgrade_is_v0(const Caffe__NetParameter *net);
int upgrade_v0(Caffe__NetParameter *net, struct text_doc *doc);

/* Moves a field by names, as field_move does; changes nothing if the source is not set. */
int upgrade_move(ProtobufCMessage *from, const char *from_name, ProtobufCMessage *to,
                 const char *to_name);

#endif
