/* Replaces solver fields by those of the command line: --set base_lr=0.02, --stage, --level. */
#ifndef POSEIDON_SPEC_OVERRIDE_H
#define POSEIDON_SPEC_OVERRIDE_H

#include "spec/text.h"

/* Fields to replace. All NULL and 0: none. The strings are borrowed. */
struct spec_overrides {
    const char *const *settings; /* "FIELD=VALUE", with the value as in a solver file; a string's
                                    quotes and a list's brackets may be left out */
    int nsettings;
    const char *stages; /* comma list added to the stages of train_state; NULL: none */
    int level;          /* level for train_state; 0: unchanged */
};

/* Applies overrides to a solver as read, before its upgrade. Replaces repeated fields whole. Fails
 * on a field that is unknown or a block, and on a value that does not parse. */
int spec_override(struct text_doc *solver, const struct spec_overrides *overrides);

#endif
