/* Fields of a solver that the command line replaces: --set base_lr=0.02, --stage, --level. */
#ifndef POSEIDON_SPEC_OVERRIDE_H
#define POSEIDON_SPEC_OVERRIDE_H

#include "spec/text.h"

/* All NULL and 0: nothing is replaced. The strings are borrowed. */
struct spec_overrides {
    const char *const *settings; /* "FIELD=VALUE", the value as a solver file has it; of a string
                                    the quotes may be left out, of a list the brackets */
    int nsettings;
    const char *stages; /* comma list that is added to those of train_state; NULL: none */
    int level;          /* of train_state; 0: as it is */
};

/* Applies them to a solver as it was read, before it is upgraded. A repeated field is replaced
 * whole. Fails on a field that the schema has not, or that is a block, and on a value that does not
 * parse. */
int spec_override(struct text_doc *solver, const struct spec_overrides *overrides);

#endif
