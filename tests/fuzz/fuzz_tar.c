/* Archives, gzip or plain: by their members, and as CIFAR-10's. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/fuzz/fuzz.h"

#include "convert/imageset.h"
#include "convert/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    const char *path = fuzz_file(0, data, length);
    struct tar_member member;
    struct imageset set;
    struct gzstream s;
    bool found = true;
    int status = gzstream_open(&s, path);

    while (status == 0 && found) {
        status = tar_next(&s, &member, &found);
        if (status == 0 && found)
            status = gzstream_skip(&s, member.size, member.name) || tar_finish(&s, &member);
    }
    gzstream_close(&s);
    if (imageset_read_cifar10(path, IMAGESET_TEST, &set) == 0)
        imageset_free(&set);
    return 0;
}
