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

/* field_move by names; changes nothing where `from` holds nothing. */
int upgrade_move(ProtobufCMessage *from, const char *from_name, ProtobufCMessage *to,
                 const char *to_name);

#endif
