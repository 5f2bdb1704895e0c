/* LMDB files of Datum messages. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/fuzz/fuzz.h"

#include "input/format/kv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    const char *path = fuzz_file(0, data, length);
    struct strbuf bytes = {0};
    struct kv *kv;

    if (kv_open_lmdb(path, &kv) == 0) {
        for (uint64_t i = 0; i < kv->count && i < 1000; i++) {
            (void)kv->i->read(kv, i, false, &bytes);
            (void)kv->i->read(kv, i, true, &bytes);
        }
        kv_close(kv);
    }
    strbuf_free(&bytes);
    return 0;
}
