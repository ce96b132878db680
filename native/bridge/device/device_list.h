/* Which devices there are: see device_list.m. */
#ifndef IRON_BRIDGE_DEVICE_LIST_H
#define IRON_BRIDGE_DEVICE_LIST_H

#import <Metal/Metal.h>

#include "ironbridge.h"

/* Fills defaults in and checks what there is. */
iron_status IronDeviceCompleteOptions(iron_device_options *options);
/* Opens a Metal device of the caller's, with a queue of its own or, unless nil, the caller's. */
iron_status IronDeviceOpenMetal(id<MTLDevice> metal, id<MTLCommandQueue> queue, const iron_device_options *options,
                                iron_device **handle);

#endif
