/* Lists of images. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/fuzz/fuzz.h"

#include "input/list.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct list list;

    for (int nvalues = LIST_PATHS; nvalues < 3; nvalues++)
        if (list_read_file(&list, fuzz_file(0, data, length), nvalues) == 0) {
            for (uint64_t i = 0; i < list.count; i++)
                if (strlen(list_path(&list, i)) == 0)
                    abort();
            list_free(&list);
        }
    return 0;
}
