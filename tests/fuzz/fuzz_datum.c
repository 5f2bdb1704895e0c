/* Datum messages: raw, floats, encoded images. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/fuzz/fuzz.h"

#include "input/format/datum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static struct record record;

    for (int color = IMAGE_AS_STORED; color <= IMAGE_GRAY; color++)
        if (datum_read(data, length, (enum image_color)color, &record) == 0) {
            size_t elems = shape_elems(&record.shape);
            const uint8_t *bytes = record.data;

            /* what it says is there must be there */
            volatile uint8_t last = bytes[elems * (record.type == SOURCE_U8 ? 1 : 4) - 1];
            (void)last;
        }
    record_free(&record);
    return 0;
}
