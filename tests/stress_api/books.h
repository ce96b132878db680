/* What must be as it was when everything is given back. */
#ifndef STRESS_BOOKS_H
#define STRESS_BOOKS_H

#include <ironbridge_memory.h>

/* The library's own threads let go of the last objects within `patience` milliseconds. */

/* Nothing is in flight, mapped or held but the device: its memory is what it was when it was opened. */
void books_check_device(iron_device *device, unsigned patience);
/* The device is gone, too. */
void books_check_process(unsigned patience);

#endif
