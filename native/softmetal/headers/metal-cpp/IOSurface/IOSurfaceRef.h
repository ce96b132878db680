/* Nothing here makes one; metal-cpp names the type. */
#ifndef SOFTMETAL_IOSURFACEREF_H
#define SOFTMETAL_IOSURFACEREF_H

typedef struct __IOSurface *IOSurfaceRef;

#endif
